import type { Redis } from 'ioredis';
import { eventually } from '../../support/redis-locks.js';
import { keyOf } from '../workload/key.js';

const WITHIN_MS = 20_000;

/** Waits until so many replicas know all that their master was told. */
export async function caughtUp(master: Redis, replicas: number): Promise<void> {
  const written = `${keyOf()}|written`;
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
