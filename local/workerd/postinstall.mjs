// miniflare writes its configuration into one buffer that grows by 4 KiB and is copied each time. With Pyodide
// and a bundle in it, that is 27 MB copied 64 times: more than half of the CPU that a cell takes to start.
import fs from "node:fs";
import { createRequire } from "node:module";

const GROWTH = /(?<=\bMIN_SINGLE_SEGMENT_GROWTH = )(\d+)(?=;)/g;
const BYTES = 4 * 1024 * 1024;

const file = createRequire(import.meta.url).resolve("miniflare");
const source = fs.readFileSync(file, "utf8");
const found = [...source.matchAll(GROWTH)];
if (found.length !== 1) {
  throw new Error(`${file}: MIN_SINGLE_SEGMENT_GROWTH is set ${found.length} times, not once; see whether this is still needed`);
}
if (Number(found[0][0]) < BYTES) {
  // In one step: a cell may be starting.
  fs.writeFileSync(`${file}.partial`, source.replace(GROWTH, String(BYTES)));
  fs.renameSync(`${file}.partial`, file);
}
