// The JavaScript classes that workerd sees: every event goes to the Python class of the same name.
import { WorkerEntrypoint } from "cloudflare:workers";
import { boot } from "./boot.mjs";
import { markConsole } from "./console.mjs";

/** Property with which the bridge boots Python ahead of the first event. */
const WARM = "__cfragWarm";
/** Bytecode of modules that the first request imports is kept too. */
const KEEP_AFTER_MS = 1000;

let booting;
let bootError;
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
    try {
      const { instantiate, dispatch } = await running(settings, ctx, env);
      if (method === WARM) return true;
      instance ??= instantiate(className, ctx, pythonEnv);
      return await dispatch(instance, method, ...(method === "fetch" ? [fromClient(args[0])] : args));
    } catch (error) {
      if (error !== bootError) console.error(text(error));
      if (method !== "fetch") throw error;
      return failure(settings.worker, error);
    }
  };
}

/** Boot once. The event that came first keeps its context until then, also when its client has gone. */
function running(settings, ctx, env) {
  if (!booting) {
    markConsole(settings.worker);
    const booted = start(settings, env);
    booting = booted;
    ctx.waitUntil(booted.then(({ bytecode }) => keep(env.__BYTECODE, bytecode), () => {}));
  }
  return booting;
}

async function start(settings, { __UNSAFE_EVAL: unsafeEval, __BYTECODE: _, ...visible }) {
  pythonEnv = visible;
  try {
    return await boot(settings, unsafeEval, visible);
  } catch (error) {
    bootError = error;
    console.error(`the Worker did not start:\n${text(error)}`);
    throw error;
  }
}

async function keep(service, bytecode) {
  await new Promise((resolve) => setTimeout(resolve, KEEP_AFTER_MS));
  const body = bytecode();
  if (body) await service.fetch("http://host/", { method: "POST", body });
}

/** Cloudflare names the client in a header of its own, whatever the client sent. Ours is this machine. */
function fromClient(request) {
  const headers = new Headers(request.headers);
  headers.set("cf-connecting-ip", "127.0.0.1");
  return new Request(request, { headers });
}

/** Cloudflare answers an exception with a bare 500; here the reason may be told. */
function failure(worker, error) {
  const reason = text(error).trimEnd().split("\n").at(-1);
  return new Response(`Worker "${worker}" threw an exception: ${reason}\n`, { status: 500 });
}

const text = (error) => error?.message || String(error);
