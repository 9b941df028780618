// Calls to the local API's binding endpoints.

/** An error that the local API answered. `code` is Cloudflare's number, where there is one. */
export class ApiError extends Error {
  constructor({ message, code }) {
    super(message);
    this.code = code;
  }
}

/** POST `body` for `worker`; the answer's "ok", or an ApiError. */
export async function callApi(env, worker, path, body) {
  const response = await env.API.fetch(`${env.API_URL}/__bindings/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-cfrag-token": env.TOKEN, "x-cfrag-worker": worker },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  const answer = parse(text);
  if (answer?.error) throw new ApiError(answer.error);
  if (!answer || !("ok" in answer)) throw new ApiError({ message: `${response.status} ${text.slice(0, 500)}` });
  return answer.ok;
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
