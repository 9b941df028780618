// A bundle on disk becomes the modules of a Worker.
import fs from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { BYTECODE, pack } from "./pack.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const PYODIDE = path.dirname(createRequire(import.meta.url).resolve("pyodide/package.json"));
const MAIN = "cfrag-main.mjs";

/** Module types of a JavaScript Worker by content type, as Cloudflare's upload names them. */
const TYPES = {
  "application/javascript+module": "ESModule",
  "text/javascript+module": "ESModule",
  "application/javascript": "CommonJS",
  "application/wasm": "CompiledWasm",
  "text/plain": "Text",
  "application/octet-stream": "Data",
};

const isText = (type) => type === "ESModule" || type === "CommonJS" || type === "Text";
const isScript = (name) => /\.m?js$/.test(name);

export async function javascriptModules(worker, root) {
  const main = `./${worker.mainModule}`;
  const source = `import "./cfrag-console.mjs";
export * from ${JSON.stringify(main)};
export { default } from ${JSON.stringify(main)};
`;
  const console = `import { markConsole } from "./host/console.mjs";
markConsole(${JSON.stringify(worker.name)});
`;
  return [
    module("ESModule", root, MAIN, source),
    module("ESModule", root, "cfrag-console.mjs", console),
    await fileModule("ESModule", root, "host/console.mjs", path.join(HERE, "host/console.mjs")),
    ...(await Promise.all(
      worker.modules.map(({ name, contentType }) => {
        const type = TYPES[contentType];
        if (!type) throw new Error(`Worker "${worker.name}": module "${name}" has the content type "${contentType}"`);
        return fileModule(type, root, name, path.join(worker.bundleDir, name));
      }),
    )),
  ];
}

/**
 * Pyodide, the host that runs in front of it, and the whole bundle as one data module.
 * `keep` takes the bytecode that the Worker's Python makes of it.
 */
export async function pythonModules(worker, { entrypoints, bytecodeCache = BYTECODE }, root) {
  const { archive, keep } = await pack(worker, bytecodeCache);
  const pyodide = (type, name, file) => fileModule(type, root, name, path.join(PYODIDE, file));
  const modules = [
    module("ESModule", root, MAIN, hostMain(worker, entrypoints)),
    module("Data", root, "host/bundle.bin", archive),
    ...(await Promise.all([
      ...scripts(worker).map((name) => fileModule("ESModule", root, name, path.join(worker.bundleDir, name))),
      ...(await hostFiles()).map((file) => fileModule("ESModule", root, `host/${file}`, path.join(HERE, "host", file))),
      pyodide("ESModule", "host/pyodide.mjs", "pyodide.mjs"),
      pyodide("ESModule", "host/pyodide.asm.mjs", "pyodide.asm.mjs"),
      pyodide("CompiledWasm", "host/pyodide.asm.wasm", "pyodide.asm.wasm"),
      pyodide("Data", "host/python_stdlib.zip.bin", "python_stdlib.zip"),
      pyodide("Text", "host/pyodide-lock.json.txt", "pyodide-lock.json"),
    ])),
  ];
  return { modules, keep };
}

/** JavaScript in the bundle, which the SDK imports by its name. */
const scripts = ({ modules }) => modules.map(({ name }) => name).filter(isScript);

function hostMain(worker, entrypoints) {
  const settings = JSON.stringify({ worker: worker.name, mainModule: worker.mainModule });
  const named = entrypoints.map((name) => `export const ${name} = pythonEntrypoint(${settings}, "${name}");\n`);
  return `import { pythonEntrypoint } from "./host/entrypoint.mjs";
export default pythonEntrypoint(${settings}, "Default");
${named.join("")}`;
}

const hostFiles = async () => (await fs.readdir(path.join(HERE, "host"))).filter(isScript);

function module(type, root, name, contents) {
  return { type, path: path.join(root, name), contents };
}

async function fileModule(type, root, name, file) {
  return module(type, root, name, await fs.readFile(file, isText(type) ? "utf8" : undefined));
}

