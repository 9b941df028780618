// Boots Pyodide inside workerd: once per isolate, on the first event.
import * as cloudflareWorkers from "cloudflare:workers";
import * as cloudflareSockets from "cloudflare:sockets";
import createPyodideModule from "./pyodide.asm.mjs";
import pyodideWasm from "./pyodide.asm.wasm";
import stdlib from "./python_stdlib.zip.bin";
import lock from "./pyodide-lock.json.txt";
import archive from "./bundle.bin";
import { newBytecode, SESSION, unpack } from "./files.mjs";
import { entrypointHelper } from "./helper.mjs";
import { loadLoader, withPatchedGlobals } from "./globals.mjs";

const BASE_URL = "http://pyodide/";

/**
 * Pyodide with the bundle unpacked and its main module imported. `env` is what Python sees.
 * Answers the calls of cfrag_host.py, and bytecode() for what was compiled meanwhile.
 */
export async function boot({ mainModule }, unsafeEval, env) {
  const assets = { wasm: pyodideWasm, stdlib };
  const pyodide = await withPatchedGlobals(unsafeEval, assets, async () => {
    const { loadPyodide } = await loadLoader();
    return loadPyodide({
      indexURL: BASE_URL,
      createPyodideModule,
      lockFileContents: JSON.parse(lock),
      env: { HOME: "/" },
      stdout: (line) => console.log(line),
      stderr: (line) => console.warn(line),
    });
  });
  const names = unpack(pyodide.FS, archive);
  pyodide.registerJsModule("_pyodide_entrypoint_helper", entrypointHelper(cloudflareWorkers, cloudflareSockets, env));
  // Pyodide doesn't write bytecode of its own accord.
  pyodide.runPython(`import sys; sys.dont_write_bytecode = False; sys.path.insert(0, "${SESSION}/host")`);
  const { start, instantiate, dispatch } = pyodide.pyimport("cfrag_host");
  start(`${SESSION}/worker`, mainModule.replace(/\.py$/, "").replaceAll("/", "."));
  return { instantiate, dispatch, bytecode: () => newBytecode(pyodide.FS, names) };
}
