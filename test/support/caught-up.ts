import type { Redis } from 'ioredis';
import { eventually } from './redis-locks.js';

const WITHIN_MS = 20_000;

/** Waits until so many replicas know all that their master was told; the key is one of that master's. */
export async function caughtUp(master: Redis, replicas: number, key: string): Promise<void> {
  const written = `${key}|written`;
  await eventually(
    `${replicas} replicas follow`,
    async () => {
      // WAIT covers what was written before over the same connection, whoever wrote the rest.
      await master.multi().set(written, 1).del(written).exec();
      return (await master.wait(replicas, 50)) >= replicas;
    },
    WITHIN_MS,
  );
}
