// A queue batch as a real queue event.

/** Deliver to the Worker's `queue` handler; what became of each message, in the local API's words. */
export async function deliver(service, { queue, messages }) {
  const result = await service.queue(queue, messages.map(incoming));
  return {
    outcome: result.outcome,
    ackAll: result.ackAll,
    retryAll: result.retryBatch,
    explicitAcks: result.explicitAcks,
    explicitRetries: result.retryMessages.map(({ msgId, delaySeconds }) => ({ id: msgId, delaySeconds })),
  };
}

function incoming({ id, timestamp, attempts, body, contentType }) {
  const value = contentType === "bytes" ? Uint8Array.from(atob(body), (char) => char.charCodeAt(0)) : body;
  return { id, timestamp: new Date(timestamp), attempts, body: value };
}
