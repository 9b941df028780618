// The bundle in Pyodide's file system, and the bytecode that Python made of it.
import { readArchive, writeArchive } from "./archive.mjs";

export const SESSION = "/session";
/** Bytecode counts for a source of the same time, so that is a constant. */
const SOURCE_TIME = 0;

/** Write the archive's files; their names below /session. */
export function unpack(FS, archive) {
  const folders = new Set();
  const files = readArchive(archive);
  for (const [name, bytes] of files) {
    const path = `${SESSION}/${name}`;
    const folder = path.slice(0, path.lastIndexOf("/"));
    if (!folders.has(folder)) FS.mkdirTree(folder);
    folders.add(folder);
    FS.writeFile(path, bytes, { canOwn: true });
    if (name.endsWith(".py")) FS.utime(path, SOURCE_TIME, SOURCE_TIME);
  }
  return files.map(([name]) => name);
}

/** Bytecode that wasn't among the `names` unpacked, as an archive; null where there is none. */
export function newBytecode(FS, names) {
  const known = new Set(names);
  const made = names
    .filter((name) => name.endsWith(".py"))
    .map(bytecodeName)
    .filter((name) => !known.has(name) && FS.analyzePath(`${SESSION}/${name}`).exists)
    .map((name) => [name, FS.readFile(`${SESSION}/${name}`)]);
  return made.length ? writeArchive(made) : null;
}

/** `a/b.py` is compiled into `a/__pycache__/b.cpython-314.pyc`. */
export function bytecodeName(source) {
  const [, folder, module] = /^(.*\/)?([^/]+)\.py$/.exec(source);
  return `${folder ?? ""}__pycache__/${module}.cpython-314.pyc`;
}
