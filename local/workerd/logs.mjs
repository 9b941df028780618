// What workerd prints, as JSON lines {worker, level, message} on stderr.
import readline from "node:readline";
import { LOG_MARK } from "./host/console.mjs";

const MARKED = new RegExp(`^${LOG_MARK}([^${LOG_MARK}]*)${LOG_MARK} ?`);
/** Hints and addresses of workerd's own code, of use only to those who build it. */
const NOISE = /^stack: \S*workerd@|\$LLVM_SYMBOLIZER is not set/;

export function logLine({ worker, level, message }) {
  process.stderr.write(`${JSON.stringify({ worker, level, message })}\n`);
}

/** Forward both streams. A line without a Worker's mark is of the only Worker, or of none. */
export function forwardLogs(stdout, stderr, workers) {
  const only = workers.length === 1 ? workers[0].name : null;
  for (const [stream, level] of [[stdout, "info"], [stderr, "error"]]) {
    readline.createInterface({ input: stream }).on("line", (line) => {
      const entry = parse(line, level);
      if (!entry || NOISE.test(entry.message)) return;
      const mark = MARKED.exec(entry.message);
      const message = mark ? entry.message.slice(mark[0].length) : entry.message;
      logLine({ worker: mark?.[1] ?? only, level: entry.level, message });
    });
  }
}

function parse(line, level) {
  if (!line.trim()) return null;
  try {
    const entry = JSON.parse(line);
    if (typeof entry.message === "string") return entry;
  } catch {
    // workerd writes plain text when it fails before its logger is up
  }
  return { level, message: line };
}
