// One archive of a Python bundle and the host's own Python files, unpacked by host/boot.mjs.
import crypto from "node:crypto";
import fs from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { readArchive, writeArchive } from "./host/archive.mjs";
import { bytecodeName } from "./host/files.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const HOST_PYTHON = path.join(HERE, "host/python");
// Half of a boot is compiling sources; this folder goes when the packages are installed anew.
export const BYTECODE = path.join(HERE, "node_modules/.cache/bytecode");
const CONCURRENT_READS = 64;

/**
 * The archive, with the bytecode that earlier boots left for the same sources. Names start with
 * "host/" or "worker/". `keep` takes an archive of new bytecode for the next boot.
 */
export async function pack(worker, cache) {
  const host = (await fs.readdir(HOST_PYTHON, { recursive: true })).filter((name) => name.endsWith(".py")).sort();
  const files = await readAll([
    ...host.map((name) => [`host/${name}`, path.join(HOST_PYTHON, name)]),
    ...worker.modules.map(({ name }) => [`worker/${name}`, path.join(worker.bundleDir, name)]),
  ]);
  const sources = files.filter(([name]) => name.endsWith(".py"));
  const cached = new Map(
    sources.map(([name, bytes]) => [bytecodeName(name), path.join(cache, `${sourceKey(name, bytes)}.pyc`)]),
  );
  const bytecode = (await readAll([...cached], () => null)).filter(([, bytes]) => bytes);
  return {
    archive: writeArchive([...files, ...bytecode]),
    keep: (archive) => keep(readArchive(archive), cached),
  };
}

/** Bytecode holds the path of its source, so that is part of the key. */
const sourceKey = (name, source) => crypto.createHash("sha256").update(`${name}\0`).update(source).digest("hex");

async function keep(files, cached) {
  for (const [name, bytes] of files) {
    const target = cached.get(name);
    if (!target) continue;
    await fs.mkdir(path.dirname(target), { recursive: true });
    // Another cell may be doing the same.
    const temporary = `${target}.${process.pid}`;
    await fs.writeFile(temporary, bytes);
    await fs.rename(temporary, target);
  }
}

/** [name, bytes] for each [name, file]; `absent` answers for a file that can't be read. */
async function readAll(entries, absent) {
  const read = async ([name, file]) => [name, await (absent ? fs.readFile(file).catch(absent) : fs.readFile(file))];
  const files = [];
  for (let i = 0; i < entries.length; i += CONCURRENT_READS) {
    files.push(...(await Promise.all(entries.slice(i, i + CONCURRENT_READS).map(read))));
  }
  return files;
}
