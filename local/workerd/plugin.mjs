// miniflare plugin: workerd's own binding classes (D1Database, VectorizeIndexImpl, Ai, WorkerQueue) over the bridge.
import { BRIDGE } from "./options.mjs";

const bridge = (entrypoint, props) => ({
  name: `core:user:${BRIDGE}`,
  entrypoint,
  props: { json: JSON.stringify(props) },
});

const wrapped = (api, service, settings = []) => ({
  wrapped: { moduleName: `cloudflare-internal:${api}-api`, innerBindings: [{ name: "fetcher", service }, ...settings] },
});

/** Each binding type as a workerd binding. `options` is the binding of the cell file plus the Worker's name. */
const BINDINGS = {
  ai: ({ worker }) => wrapped("ai", bridge("Ai", { worker })),
  d1: ({ worker, id }) => wrapped("d1", bridge("D1", { worker, database: id })),
  queue: ({ worker, queue_name: queue }) => ({ queue: bridge("Queue", { worker, queue }) }),
  vectorize: ({ worker, index_name: index }) =>
    wrapped("vectorize", bridge("Vectorize", { worker, index }), [
      { name: "indexId", text: index },
      { name: "indexVersion", text: "v2" },
      { name: "useNdJson", json: "true" },
    ]),
};

export const plugins = {
  cfrag: {
    getBindings: (bindings = []) => bindings.map(({ name, type, options }) => ({ name, ...BINDINGS[type](options) })),
    getNodeBindings: () => ({}),
    getServices: () => [],
  },
};
