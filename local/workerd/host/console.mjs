// Marks every console line with its Worker's name: workerd's log lines don't say whose they are.
export const LOG_MARK = "\u001f";

export function markConsole(worker) {
  const mark = `${LOG_MARK}${worker}${LOG_MARK}`;
  for (const level of ["log", "info", "warn", "error", "debug"]) {
    const write = console[level].bind(console);
    console[level] = (first, ...rest) =>
      typeof first === "string" ? write(`${mark} ${first}`, ...rest) : write(mark, first, ...rest);
  }
}
