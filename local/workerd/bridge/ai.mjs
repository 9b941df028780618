// Behind Ai: the run request, turned into a call of the local API.
import { WorkerEntrypoint } from "cloudflare:workers";
import { ApiError, callApi } from "./api.mjs";

export class Ai extends WorkerEntrypoint {
  async fetch(request) {
    const model = request.headers.get("cf-consn-model-id");
    const { inputs: input, options } = await request.json();
    try {
      const result = await callApi(this.env, this.ctx.props.worker, `ai/${model}`, { input, options });
      return new Response(JSON.stringify(result), {
        headers: { "content-type": "application/json", "cf-ai-req-id": crypto.randomUUID() },
      });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return failure(error);
    }
  }
}

/** The class makes `<code>: <message>` of the first form and takes the second as it is. */
function failure({ message, code }) {
  const numbered = code !== undefined && !message.startsWith(`${code}: `);
  return numbered
    ? Response.json({ errors: [{ code, message }] }, { status: 400 })
    : new Response(message, { status: 400 });
}
