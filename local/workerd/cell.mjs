// One cell: the Workers of a cell file, served by one workerd. Usage: node cell.mjs <cell.json>
import fs from "node:fs/promises";
import { Log, LogLevel, Miniflare } from "miniflare";
import { exitWithParent, trackWorkerd } from "./lifecycle.mjs";
import { forwardLogs, logLine } from "./logs.mjs";
import { BRIDGE, cellOptions } from "./options.mjs";

/** An orderly stop may take this long; then workerd is killed. */
const STOP_MS = 3000;

/** miniflare's own messages, as log lines of no particular Worker. */
class CellLog extends Log {
  log(message) {
    logLine({ worker: null, level: "info", message });
  }
  error(message) {
    logLine({ worker: null, level: "error", message: message.stack ?? String(message) });
  }
}

async function start(cellFile) {
  const cell = JSON.parse(await fs.readFile(cellFile, "utf8"));
  const workerd = trackWorkerd();
  const miniflare = new Miniflare({
    ...(await cellOptions(cell)),
    log: new CellLog(LogLevel.WARN),
    structuredWorkerdLogs: true,
    handleRuntimeStdio: (stdout, stderr) => forwardLogs(stdout, stderr, cell.workers),
  });
  const stop = async (code) => {
    workerd.release();
    setTimeout(() => process.exit(code), STOP_MS);
    await miniflare.dispose().catch(() => {});
    workerd.dismiss();
    process.exit(code);
  };
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) {
    // miniflare's own handler exits at once, with the signal's code.
    process.removeAllListeners(signal).on(signal, () => stop(0));
  }
  exitWithParent(() => stop(0));
  await miniflare.ready;
  workerd.onExit(() => {
    logLine({ worker: null, level: "error", message: "workerd stopped unexpectedly" });
    stop(1);
  });
  const control = await miniflare.unsafeGetDirectURL(BRIDGE);
  console.log(
    JSON.stringify({ ready: true, control: control.origin, pid: process.pid, workerdPid: workerd.pid() }),
  );
}

/** Why the cell can't start; miniflare's advice on a taken address is for its own command line. */
function reason(error) {
  const address = /\(([^)]+)\)/.exec(error.message)?.[1];
  return error.code === "ERR_ADDRESS_IN_USE" ? `the address ${address} is in use` : error.message;
}

const [cellFile] = process.argv.slice(2);
if (!cellFile) {
  console.error("usage: node cell.mjs <cell.json>");
  process.exit(2);
}
start(cellFile).catch((error) => {
  logLine({ worker: null, level: "error", message: `the cell did not start: ${reason(error)}` });
  process.exit(1);
});
