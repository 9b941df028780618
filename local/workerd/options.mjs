// A cell file becomes miniflare's options.
import { fileURLToPath } from "node:url";
import fs from "node:fs/promises";
import path from "node:path";
import { Response, supportedCompatibilityDate } from "miniflare";
import { javascriptModules, pythonModules } from "./modules.mjs";

export const BRIDGE = "cfrag-bridge";
const HERE = path.dirname(fileURLToPath(import.meta.url));
const PLUGIN = { package: path.join(HERE, "plugin.mjs"), name: "cfrag" };
const MODULES_ROOT = "/worker";

/** Everything that depends on the cell: its Workers, its databases and the bridge between them and the API. */
export async function cellOptions(cell) {
  return {
    host: "127.0.0.1",
    port: 0,
    cf: false,
    telemetry: { enabled: false },
    d1Persist: cell.d1Persist,
    workers: [await bridge(cell), ...(await Promise.all(cell.workers.map((worker) => userWorker(cell, worker))))],
  };
}

/** The Worker that serves the control API and stands behind every binding. */
async function bridge(cell) {
  const folder = path.join(HERE, "bridge");
  const files = (await fs.readdir(folder)).filter((file) => file.endsWith(".mjs") && file !== "main.mjs");
  const services = cell.workers.map(({ name }) => [`WORKER:${name}`, name]);
  const api = new URL(cell.bindingsUrl);
  return {
    name: BRIDGE,
    modulesRoot: MODULES_ROOT,
    modules: await Promise.all(
      ["main.mjs", ...files].map(async (file) => ({
        type: "ESModule",
        path: path.join(MODULES_ROOT, file),
        contents: await fs.readFile(path.join(folder, file), "utf8"),
      })),
    ),
    compatibilityDate: supportedCompatibilityDate,
    compatibilityFlags: ["service_binding_extra_handlers"],
    unsafeDirectSockets: [{ host: "127.0.0.1", port: cell.controlPort ?? 0 }],
    bindings: {
      TOKEN: cell.token,
      // Its host goes out as the Host header, which the API checks.
      API_URL: api.origin,
      D1_FAULTS: cell.d1Faults ?? false,
      PYTHON_WORKERS: cell.workers.filter(isPython).map(({ name }) => name),
    },
    // The prefix asks miniflare for the database's bare service instead of a D1Database.
    d1Databases: Object.fromEntries(cell.databases.map((id) => [`__D1_BETA__${id}`, id])),
    serviceBindings: {
      API: { external: { address: api.host, http: {} } },
      ...Object.fromEntries(services),
    },
  };
}

async function userWorker(cell, worker) {
  const common = {
    name: worker.name,
    modulesRoot: MODULES_ROOT,
    compatibilityDate: compatibilityDate(worker),
    compatibilityFlags: worker.compatibilityFlags ?? [],
    // A Worker without a port is there for service bindings only.
    unsafeDirectSockets: worker.port ? [{ host: worker.host ?? "127.0.0.1", port: worker.port }] : [],
    ...bindings(cell, worker),
  };
  if (!isPython(worker)) return { ...common, modules: await javascriptModules(worker, MODULES_ROOT) };
  const host = { entrypoints: entrypoints(cell, worker.name), bytecodeCache: cell.bytecodeCache };
  const { modules, keep } = await pythonModules(worker, host, MODULES_ROOT);
  const serviceBindings = { ...common.serviceBindings, __BYTECODE: bytecodeService(keep) };
  const compatibilityFlags = pythonFlags(worker);
  return { ...common, modules, serviceBindings, compatibilityFlags, unsafeEvalBinding: "__UNSAFE_EVAL" };
}

const bytecodeService = (keep) => async (request) => {
  await keep(await request.arrayBuffer());
  return new Response();
};

const isPython = (worker) => worker.mainModule.endsWith(".py");

/** The newest date that this workerd knows, where the Worker asks for a later one. */
function compatibilityDate({ compatibilityDate: date }) {
  return !date || date > supportedCompatibilityDate ? supportedCompatibilityDate : date;
}

/** workerd's own Python support stays off. With Node's v2 globals Pyodide would take workerd for Node. */
function pythonFlags({ compatibilityFlags = [] }) {
  const own = compatibilityFlags.filter((flag) => !flag.includes("python") && !flag.startsWith("nodejs_compat"));
  return [...own, "nodejs_compat", "no_nodejs_compat_v2"];
}

/** Classes of `name` that other Workers bind by name; workerd wants each of them exported. */
function entrypoints(cell, name) {
  const bound = cell.workers.flatMap((worker) => worker.bindings.filter(({ type }) => type === "service"));
  const named = bound.filter((binding) => binding.service === name && isNamed(binding.entrypoint));
  return [...new Set(named.map((binding) => binding.entrypoint))];
}

const isNamed = (entrypoint) => entrypoint && entrypoint !== "default" && entrypoint !== "Default";

function bindings(cell, worker) {
  const options = { bindings: {}, serviceBindings: {}, ratelimits: {}, unsafeBindings: [] };
  for (const binding of worker.bindings) addBinding(options, cell, worker, binding);
  return options;
}

function addBinding(options, cell, worker, binding) {
  const { type, name } = binding;
  switch (type) {
    case "plain_text":
    case "secret_text":
      options.bindings[name] = binding.text;
      return;
    case "json":
      options.bindings[name] = binding.json;
      return;
    case "version_metadata":
      options.bindings[name] = { id: worker.versionId, tag: "", timestamp: new Date().toISOString() };
      return;
    case "service": {
      const entrypoint = isNamed(binding.entrypoint) ? binding.entrypoint : undefined;
      if (!cell.workers.some((other) => other.name === binding.service)) {
        throw new Error(`Worker "${worker.name}": binding "${name}" is to the Worker "${binding.service}", which is not in this cell`);
      }
      options.serviceBindings[name] = { name: binding.service, entrypoint };
      return;
    }
    case "ratelimit":
      options.ratelimits[name] = { simple: binding.simple };
      return;
    case "ai":
    case "d1":
    case "queue":
    case "vectorize":
      options.unsafeBindings.push({ name, type, plugin: PLUGIN, options: { ...binding, worker: worker.name } });
      return;
    default:
      throw new Error(`Worker "${worker.name}": binding "${name}" has the type "${type}", which is not served locally`);
  }
}
