// The few globals in which workerd differs from a browser, changed while Pyodide loads.

/**
 * Run `load` with globals as Pyodide expects them. `eval` and the WebAssembly compilers stay, since
 * extension modules are compiled later; `fetch` is given back.
 */
export async function withPatchedGlobals(unsafeEval, { wasm, stdlib }, load) {
  globalThis.location ??= { href: "http://pyodide/", protocol: "http:", toString: () => "http://pyodide/" };
  globalThis.eval = (code) => unsafeEval.eval(code);
  patchAddEventListener();
  patchWebAssembly(unsafeEval, wasm);
  // Its one shared channel would run every request's callbacks in the request that booted Pyodide.
  delete globalThis.MessageChannel;
  const { fetch } = globalThis;
  globalThis.fetch = async (input, init) => {
    const url = String(input?.url ?? input);
    if (url.endsWith("python_stdlib.zip")) return new Response(stdlib);
    if (url.endsWith("pyodide.asm.wasm")) return new Response("");
    return fetch(input, init);
  };
  try {
    return await load();
  } finally {
    globalThis.fetch = fetch;
  }
}

/** workerd throws on capturing listeners, which Pyodide adds for errors of its own. */
function patchAddEventListener() {
  const { addEventListener } = globalThis;
  globalThis.addEventListener = (type, listener, options) => {
    if (options === true || options?.capture) return;
    addEventListener.call(globalThis, type, listener, options);
  };
}

/** workerd compiles WebAssembly at run time only through its unsafe-eval binding. */
function patchWebAssembly(unsafeEval, mainModule) {
  const { Module } = WebAssembly;
  const instantiate = WebAssembly.instantiate.bind(WebAssembly);
  const compile = (bytes) => unsafeEval.newWasmModule(bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes));
  const instance = async (module, imports) => ({ module, instance: await instantiate(module, imports) });
  WebAssembly.Module = new Proxy(Module, { construct: (_target, [bytes]) => compile(bytes) });
  WebAssembly.compile = async (bytes) => compile(bytes);
  WebAssembly.instantiate = async (source, imports) =>
    source instanceof Module ? instantiate(source, imports) : instance(compile(source), imports);
  WebAssembly.instantiateStreaming = async (_response, imports) => instance(mainModule, imports);
}

/** Pyodide's loader looks at the globals when it is evaluated, so it is imported only now. */
export const loadLoader = () => import("./pyodide.mjs");
