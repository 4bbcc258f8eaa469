import type { Redis } from 'ioredis';
import { eventually } from './redis-locks.js';

/** Waits until `replicas` replicas have all writes of the master that has the key. */
export async function caughtUp(master: Redis, replicas: number, key: string): Promise<void> {
  const written = `${key}|written`;
  await eventually(`${replicas} replicas follow`, async () => {
    // WAIT covers the writes of its own connection and all that came before them.
    await master.multi().set(written, 1).del(written).exec();
    return (await master.wait(replicas, 50)) >= replicas;
  });
}
