import type { Redis } from 'ioredis';

type Write = (...args: unknown[]) => unknown;

/** Counts the packets that clients hand to the system from now on. Returns a function that returns their number. */
export function countWrites(clients: readonly Redis[]): () => number {
  let count = 0;
  for (const { stream } of clients) {
    for (const name of ['_write', '_writev']) {
      const own = Reflect.get(stream, name) as Write;
      Reflect.set(stream, name, (...args: unknown[]) => {
        count += 1;
        return Reflect.apply(own, stream, args);
      });
    }
  }
  return () => count;
}
