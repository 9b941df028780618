// Behind VectorizeIndexImpl: its v2 wire protocol, turned into calls of the local API.
import { WorkerEntrypoint } from "cloudflare:workers";
import { ApiError, callApi } from "./api.mjs";

/** The class adds this in front itself. */
const PREFIX = /^VECTOR_\w+_ERROR(?: \(code = (\d+)\))?: /;

export class Vectorize extends WorkerEntrypoint {
  async fetch(request) {
    const { worker, index } = this.ctx.props;
    const [op, args] = await operation(request);
    try {
      return Response.json(await callApi(this.env, worker, `vectorize/${encodeURIComponent(index)}/${op}`, args));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return failure(error);
    }
  }
}

/** The name and the arguments of the method that the Worker called. */
async function operation(request) {
  const path = new URL(request.url).pathname.slice(1);
  switch (path) {
    case "info":
      return ["describe", []];
    case "query": {
      const { vector, vectorId, ...options } = await request.json();
      return vector ? ["query", [vector, options]] : ["queryById", [vectorId, options]];
    }
    case "insert":
    case "upsert":
      return [path, [lines(await request.text())]];
    default:
      return [path, [(await request.json()).ids]];
  }
}

const lines = (text) => text.split("\n").filter(Boolean).map((line) => JSON.parse(line));

function failure({ message, code }) {
  const prefix = PREFIX.exec(message);
  const error = prefix ? message.slice(prefix[0].length) : message;
  const number = code ?? (prefix?.[1] === undefined ? undefined : Number(prefix[1]));
  return Response.json({ error, code: number }, { status: 400 });
}
