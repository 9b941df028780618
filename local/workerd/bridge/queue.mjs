// Behind WorkerQueue: messages as the runtime sends them, handed to the local API.
import { WorkerEntrypoint } from "cloudflare:workers";
import { ApiError, callApi } from "./api.mjs";

/** What `send` resolves to has these, also where the local API doesn't tell them. */
const UNKNOWN_METRICS = { backlogCount: 0, backlogBytes: 0, oldestMessageTimestamp: 0 };

/** Cloudflare's number for an error without one. */
const UNKNOWN_ERROR = 15000;

export class Queue extends WorkerEntrypoint {
  async fetch(request) {
    const { worker, queue } = this.ctx.props;
    try {
      const messages = await sent(request);
      const ok = await callApi(this.env, worker, `queue/${encodeURIComponent(queue)}/send`, { messages });
      return Response.json({ metadata: { metrics: ok?.metadata?.metrics ?? UNKNOWN_METRICS } });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return failure(error);
    }
  }
}

async function sent(request) {
  const delay = request.headers.get("X-Msg-Delay-Secs");
  const delaySeconds = delay === null ? undefined : Number(delay);
  if (!new URL(request.url).pathname.endsWith("/batch")) {
    const bytes = new Uint8Array(await request.arrayBuffer());
    return [message(request.headers.get("X-Msg-Fmt"), bytes, delaySeconds)];
  }
  const { messages } = await request.json();
  return messages.map(({ contentType, body, delaySecs }) =>
    message(contentType, fromBase64(body), delaySecs ?? delaySeconds),
  );
}

/** `json` bodies are values, `text` is a string, `bytes` is base64. */
function message(contentType, bytes, delaySeconds) {
  switch (contentType) {
    case "json":
      return { body: JSON.parse(new TextDecoder().decode(bytes)), contentType, delaySeconds };
    case "text":
      return { body: new TextDecoder().decode(bytes), contentType, delaySeconds };
    case "bytes":
      return { body: toBase64(bytes), contentType, delaySeconds };
    default:
      throw new ApiError({ message: `content type "${contentType}" is not served locally: use json, text or bytes` });
  }
}

const fromBase64 = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
const toBase64 = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));

/** The class makes `<cause> (<code>)` of these headers, which carry printable ASCII only. */
function failure({ message, code = UNKNOWN_ERROR }) {
  const cause = message.replace(/[^\x20-\x7e]+/g, " ").replace(` (${code})`, "");
  const headers = { "CF-Queues-Error-Code": String(code), "CF-Queues-Error-Cause": cause };
  return new Response(message, { status: 400, headers });
}
