// One archive of a Python bundle and the host's own Python files, unpacked by host/boot.mjs.
import fs from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

const HOST_PYTHON = path.join(path.dirname(fileURLToPath(import.meta.url)), "host/python");
const CONCURRENT_READS = 64;

/**
 * Archive: a 4 byte little-endian length, that many bytes of JSON [[path, size], ...], the files' bytes.
 * Paths start with "host/" or "worker/". JavaScript files are also given as modules of their own names.
 */
export async function pack(worker) {
  const host = (await fs.readdir(HOST_PYTHON, { recursive: true })).filter((name) => name.endsWith(".py")).sort();
  const files = [
    ...host.map((name) => ({ name: `host/${name}`, file: path.join(HOST_PYTHON, name) })),
    ...worker.modules.map(({ name }) => ({ name: `worker/${name}`, file: path.join(worker.bundleDir, name) })),
  ];
  const contents = await readAll(files.map(({ file }) => file));
  const index = Buffer.from(JSON.stringify(files.map(({ name }, i) => [name, contents[i].length])));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(index.length);
  const scripts = worker.modules.filter(({ name }) => /\.m?js$/.test(name));
  return {
    archive: Buffer.concat([length, index, ...contents]),
    scripts: await Promise.all(
      scripts.map(async ({ name }) => ({ name, contents: await fs.readFile(path.join(worker.bundleDir, name), "utf8") })),
    ),
  };
}

async function readAll(files) {
  const contents = [];
  for (let i = 0; i < files.length; i += CONCURRENT_READS) {
    contents.push(...(await Promise.all(files.slice(i, i + CONCURRENT_READS).map((file) => fs.readFile(file)))));
  }
  return contents;
}
