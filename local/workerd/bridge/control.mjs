// The control API: what the local API asks of a cell. Every request carries the cell's token.
import { databaseService, setD1Faults } from "./d1.mjs";
import { deliver } from "./delivery.mjs";

class ControlError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export default {
  async fetch(request, env) {
    if (request.headers.get("authorization") !== `Bearer ${env.TOKEN}`) return failure(401, "wrong token");
    try {
      return await route(request, env);
    } catch (error) {
      return failure(error instanceof ControlError ? error.status : 500, error.message);
    }
  },
};

async function route(request, env) {
  const [area, name] = new URL(request.url).pathname.slice(1).split("/");
  switch (`${request.method} ${area}`) {
    case "GET health":
      return Response.json({ ok: true });
    case "POST queue": {
      const batch = await request.json();
      return Response.json(await deliver(workerNamed(env, batch.worker), batch));
    }
    case "POST warm": {
      const { worker } = await request.json();
      const service = workerNamed(env, worker);
      if (env.PYTHON_WORKERS.includes(worker)) await service.__cfragWarm();
      return Response.json({ ok: true });
    }
    case "POST d1":
      return query(env, name, (await request.json()).statements);
    case "PUT d1-faults":
      setD1Faults((await request.json()).enabled);
      return Response.json({ ok: true });
    default:
      return failure(404, "no such control path");
  }
}

function workerNamed(env, name) {
  const service = env[`WORKER:${name}`];
  if (!service) throw new ControlError(404, `Worker "${name}" is not in this cell`);
  return service;
}

/** Run statements in one transaction, as D1 does with a batch. */
async function query(env, id, statements) {
  const service = databaseService(env, id);
  if (!service) return failure(404, `database ${id} is not in this cell`);
  const response = await service.fetch("http://d1/query?resultsFormat=ARRAY_OF_OBJECTS", {
    method: "POST",
    body: JSON.stringify(statements.map(({ sql, params }) => ({ sql, params: params ?? [] }))),
  });
  const answer = await response.json();
  return Array.isArray(answer) ? Response.json({ results: answer }) : failure(400, answer.error);
}

const failure = (status, message) => Response.json({ error: { message } }, { status });
