import type { RedisNotFoundError, RedisServer } from '../../../test/support/redis/index.js';
import { Instance } from './launch/instance.js';
import { runWithRedis, withInstances } from './launch/run.js';
import { findRedis } from './launch/redis.js';

const INSTANCES = 3;
const BUYERS = 60;
/** Long enough that buyers without a lock overlap, and that pieces can be seen going. */
const PAYMENT_MS = '60';

/** Runs `work` and shows what it is while it lasts. `work` may show a detail. */
export type Step = <T>(what: string, work: (detail: (text: string) => void) => Promise<T>) => Promise<T>;

/** Runs three instances on one Redis until Ctrl-C. */
export function start(step: Step): Promise<never> {
  return runWithRedis(
    async (redis) => {
      const starting = step('Starting the instances', () => startInstances(redis));
      await withInstances(starting, async (instances) => {
        printIntroduction(redis, instances);
        await Promise.all(instances.map(printEnd));
      });
      console.log('\nStopped.');
      return 0;
    },
    () => step('Starting Redis', findRedis),
  );
}

function startInstances(redis: RedisServer | RedisNotFoundError): Promise<Instance[]> {
  if (redis instanceof Error) return Instance.startAll(1, { STORE: 'memory', PAYMENT_MS }, 'inherit');
  return Instance.startAll(INSTANCES, { REDIS_URL: redis.url, PAYMENT_MS }, 'inherit');
}

function printIntroduction(redis: RedisServer | RedisNotFoundError, instances: readonly Instance[]): void {
  const [first] = instances;
  console.log(`
${redis instanceof Error ? withoutRedis(redis) : `Redis      ${redis.description}, port ${redis.port}`}
Instances  ${instances.map(({ url }) => url).join('  ')}

Open ${first?.url} to see the sale with a lock and without one.

${whatToCall(instances.map(({ port }) => port))}

Every 10 seconds one of the instances reports all sales. Ctrl-C stops everything.
`);
}

function withoutRedis({ message }: RedisNotFoundError): string {
  return `${message}

Redis      none: locks and stock are in the memory of one process. This shows the API only:
           the memory store excludes no other process, so there is one instance.`;
}

function whatToCall(ports: readonly number[]): string {
  const [first, second = first, third = first] = ports;
  const everywhere = `localhost:${ports.length > 1 ? `{${ports.join()}}` : first}`;
  const each = BUYERS / ports.length;
  const silent = `curl -Z --no-progress-meter -o /dev/null -w '%{http_code} ' -X POST`;
  return `In another terminal, for example:
  curl -d amount=20 localhost:${first}/goods/1/restock
  curl -X POST localhost:${second}/goods/1/buy
  curl localhost:${third}/goods/1

${BUYERS} buyers at once for 20 pieces, of goods 2 with the lock and of goods 3 without; then look what was sold:
  curl -d amount=20 'localhost:${first}/goods/{2,3}/restock'
  ${silent} '${everywhere}/goods/2/buy?[1-${each}]'
  ${silent} '${everywhere}/goods/3/buy-unlocked?[1-${each}]'
  curl 'localhost:${first}/goods/{2,3}'`;
}

/** Prints that an instance has ended. The others go on, and its locks are free when their leases have expired. */
async function printEnd({ port, ended }: Instance): Promise<void> {
  console.log(`The instance on port ${port} has ended (${await ended}).`);
}
