// The JavaScript classes that workerd sees: every event goes to the Python class of the same name.
import { WorkerEntrypoint } from "cloudflare:workers";
import { boot } from "./boot.mjs";
import { markConsole } from "./console.mjs";

/** Property with which the bridge boots Python ahead of the first event. */
const WARM = "__cfragWarm";
const HIDDEN = "__UNSAFE_EVAL";

let booting;
let pythonEnv;

/** A WorkerEntrypoint class that stands for `className` of the Python main module. */
export function pythonEntrypoint(settings, className) {
  return class extends WorkerEntrypoint {
    constructor(ctx, env) {
      super(ctx, env);
      const call = pythonCalls(settings, className, ctx, env);
      // The Python class's methods aren't known yet, so any name may be one.
      return new Proxy(this, {
        get: (target, name, receiver) =>
          typeof name === "string" ? (...args) => call(name, args) : Reflect.get(target, name, receiver),
      });
    }
  };
}

function pythonCalls(settings, className, ctx, env) {
  let instance;
  return async (method, args) => {
    const host = await running(settings, ctx, env);
    if (method === WARM) return true;
    instance ??= host.instantiate(className, ctx, pythonEnv);
    if (method !== "fetch") return host.call(await instance, method, ...args);
    return answer(settings, async () => host.call(await instance, method, ...args));
  };
}

/** Boot once. The event that came first keeps its context until then, also when its client has gone. */
function running(settings, ctx, env) {
  if (!booting) {
    const { [HIDDEN]: unsafeEval, ...visible } = env;
    pythonEnv = visible;
    markConsole(settings.worker);
    booting = boot(settings, unsafeEval, visible);
    booting.catch((error) => console.error(`Worker "${settings.worker}" did not start:\n${text(error)}`));
    ctx.waitUntil(booting.catch(() => {}));
  }
  return booting;
}

/** An exception in `fetch` becomes the 500 that Cloudflare answers, with the reason since this is local. */
async function answer({ worker }, respond) {
  try {
    return await respond();
  } catch (error) {
    console.error(text(error));
    const reason = text(error).trimEnd().split("\n").at(-1);
    return new Response(`Worker "${worker}" threw an exception: ${reason}\n`, { status: 500 });
  }
}

const text = (error) => error?.message || String(error);
