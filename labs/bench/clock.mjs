// The machine's monotonic clock, which is the same in all processes. `performance.now()` reads it with another origin.
export { setTimeout as sleep } from 'node:timers/promises';

const OFFSET = offsetOfPerformance();

/** Milliseconds, comparable between processes. */
export const now = () => performance.now() + OFFSET;

function offsetOfPerformance() {
  let best = { width: Infinity, offset: 0 };
  for (let i = 0; i < 1000; i++) {
    const before = performance.now();
    const [seconds, nanoseconds] = process.hrtime();
    const after = performance.now();
    const offset = seconds * 1e3 + nanoseconds / 1e6 - (before + after) / 2;
    if (after - before < best.width) best = { width: after - before, offset };
  }
  return best.offset;
}
