// `_pyodide_entrypoint_helper`: what workerd's own Python support offers to the Workers runtime SDK.

export function entrypointHelper(cloudflareWorkers, cloudflareSockets, env) {
  return {
    cloudflareWorkersModule: { ...cloudflareWorkers, env, waitUntil: keepAlive(cloudflareWorkers.waitUntil) },
    cloudflareSocketsModule: cloudflareSockets,
    doAnImport: (name) => import(name.includes(":") ? name : `../${name}`),
    patchWaitUntil,
    *patch_env_helper(patch) {
      const before = { ...env };
      Object.assign(env, patch);
      try {
        yield;
      } finally {
        for (const name of Object.keys(patch)) delete env[name];
        Object.assign(env, before);
      }
    },
  };
}

const patched = new WeakSet();

function patchWaitUntil(ctx) {
  if (patched.has(ctx)) return;
  patched.add(ctx);
  ctx.waitUntil = keepAlive(ctx.waitUntil.bind(ctx));
}

/** A Python future is borrowed for the call only: hold a copy until it is done. */
function keepAlive(waitUntil) {
  return (promise) => {
    const held = typeof promise?.copy === "function" ? promise.copy() : promise;
    const settle = async () => {
      try {
        await held;
      } finally {
        held?.destroy?.();
      }
    };
    waitUntil(settle());
  };
}
