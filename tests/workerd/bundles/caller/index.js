// A JavaScript Worker beside a Python one: calls it by RPC, and uses the same bindings.
const routes = {
  search: (env) => env.RAG.search({ query: "from JavaScript", topK: 3 }, [1, null]),
  version: (env) => env.RAG.version(),
  fails: (env) => env.RAG.fails(),
  missing: (env) => env.RAG.missing(),
  fetch: async (env) => (await env.PROBE.fetch("http://probe/health")).json(),
  name: (env) => env.NAME,
  ask: async (env) => (await env.OTHER.fetch("http://other/name")).json(),
  vectorize: (env) => env.VECTORIZE.query(new Float32Array([0.5, 0.25]), { topK: 2, returnMetadata: true }),
  ai: (env) => env.AI.run("@cf/baai/bge-small-en-v1.5", { text: ["a"] }),
  send: (env) => env.QUEUE.send({ from: "js" }, { delaySeconds: 5 }),
  bytes: (env) => env.QUEUE.send(new Uint8Array([1, 255]), { contentType: "bytes" }),
  count: (env) => env.DB.prepare("SELECT count(*) AS n FROM shared").first(),
  insert: async (env) => (await env.DB.prepare("INSERT INTO shared (note) VALUES ('inserted') RETURNING note").all()).results,
  log: (env) => console.log("logged by %s", env.NAME),
};

export default {
  async fetch(request, env) {
    const route = new URL(request.url).pathname.slice(1);
    try {
      return Response.json((await routes[route](env)) ?? null);
    } catch (error) {
      return Response.json({ error: error.message, name: error.name });
    }
  },
};
