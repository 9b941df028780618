// Boots Pyodide inside workerd: once per isolate, on the first event.
import * as cloudflareWorkers from "cloudflare:workers";
import * as cloudflareSockets from "cloudflare:sockets";
import createPyodideModule from "./pyodide.asm.mjs";
import pyodideWasm from "./pyodide.asm.wasm";
import stdlib from "./python_stdlib.zip.bin";
import lock from "./pyodide-lock.json.txt";
import archive from "./bundle.bin";
import { entrypointHelper } from "./helper.mjs";
import { loadLoader, withPatchedGlobals } from "./globals.mjs";

const SESSION = "/session";
const BASE_URL = "http://pyodide/";

/** Pyodide with the bundle unpacked, and the Python side of the host. `env` is what Python sees. */
export async function boot({ mainModule }, unsafeEval, env) {
  const assets = { wasm: pyodideWasm, stdlib };
  const pyodide = await withPatchedGlobals(unsafeEval, assets, async () => {
    const { loadPyodide } = await loadLoader();
    return loadPyodide({
      indexURL: BASE_URL,
      createPyodideModule,
      lockFileContents: JSON.parse(lock),
      env: { HOME: "/", PYTHONDONTWRITEBYTECODE: "1" },
      stdout: (line) => console.log(line),
      stderr: (line) => console.warn(line),
    });
  });
  unpack(pyodide.FS, archive);
  pyodide.registerJsModule("_pyodide_entrypoint_helper", entrypointHelper(cloudflareWorkers, cloudflareSockets, env));
  pyodide.runPython(`import sys; sys.path.insert(0, "${SESSION}/host")`);
  const host = pyodide.pyimport("cfrag_host");
  host.start(`${SESSION}/worker`, mainModule.replace(/\.py$/, "").replaceAll("/", "."));
  return host;
}

function unpack(FS, buffer) {
  const bytes = new Uint8Array(buffer);
  const length = new DataView(buffer).getUint32(0, true);
  const index = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  let offset = 4 + length;
  const folders = new Set();
  for (const [name, size] of index) {
    const path = `${SESSION}/${name}`;
    const folder = path.slice(0, path.lastIndexOf("/"));
    if (!folders.has(folder)) FS.mkdirTree(folder);
    folders.add(folder);
    FS.writeFile(path, bytes.slice(offset, offset + size), { canOwn: true });
    offset += size;
  }
}
