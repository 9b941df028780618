// Behind D1Database: the database's own service, with faults on request.
import { WorkerEntrypoint } from "cloudflare:workers";
import { ApiError, callApi } from "./api.mjs";

let faults;

/** Whether the local API is asked before each call; starts as the cell file says. */
export function setD1Faults(enabled) {
  faults = enabled;
}

export class D1 extends WorkerEntrypoint {
  async fetch(request) {
    const { worker, database } = this.ctx.props;
    const service = databaseService(this.env, database);
    if (!(faults ?? this.env.D1_FAULTS)) return service.fetch(request);
    const op = new URL(request.url).pathname.slice(1);
    const ask = (phase) => callApi(this.env, worker, `d1/${op}`, { worker, op, database, phase });
    try {
      const order = await ask("before");
      const response = await service.fetch(request);
      if (order?.after) await ask("after");
      return response;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return Response.json({ success: false, error: error.message });
    }
  }
}

export function databaseService(env, id) {
  return env[`__D1_BETA__${id}`];
}
