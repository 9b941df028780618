// No process outlives the one that started it: cell.mjs goes with its parent, workerd with cell.mjs.
import { spawn } from "node:child_process";
import diagnostics from "node:diagnostics_channel";
import fs from "node:fs";

const PARENT_CHECK_MS = 500;

/** Call `stop` once the parent is gone: its pid changes, or a pipe on stdin reaches its end. */
export function exitWithParent(stop) {
  const parent = process.ppid;
  setInterval(() => process.ppid !== parent && stop(), PARENT_CHECK_MS).unref();
  const stdin = fs.fstatSync(0);
  if (!stdin.isFIFO() && !stdin.isSocket()) return;
  process.stdin.on("end", stop).on("error", stop).resume();
}

/**
 * Watch the workerd that miniflare is about to start. miniflare doesn't tell its pid, and kills it
 * only on an orderly exit; a shell that holds our pipe does it when this process was killed.
 */
export function trackWorkerd() {
  let workerd;
  let guard;
  let released = false;
  diagnostics.subscribe("child_process", ({ process: child }) => {
    child.once("spawn", () => {
      if (!child.spawnargs.includes("serve")) return;
      workerd = child;
      guard?.kill("SIGKILL");
      guard = spawn("/bin/sh", ["-c", 'read _; kill -9 "$1" 2>/dev/null', "workerd-guard", String(child.pid)], {
        stdio: ["pipe", "ignore", "ignore"],
      });
      guard.unref();
    });
  });
  return {
    pid: () => workerd?.pid,
    onExit: (stopped) => workerd?.once("exit", () => !released && stopped()),
    /** The end of workerd is expected from now on. */
    release: () => (released = true),
    /** Call after workerd has ended: nothing is left to kill. */
    dismiss: () => guard?.kill("SIGKILL"),
  };
}
