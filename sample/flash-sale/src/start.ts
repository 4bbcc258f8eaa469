import type { RedisNotFoundError, RedisServer } from '../../../test/support/redis/index.js';
import { Instance } from './launch/instance.js';
import { runWithRedis, type Step, withInstances } from './launch/run.js';

const INSTANCES = 3;
const BUYERS = 60;
/** Long enough that buyers without a lock overlap, and that pieces can be seen going. */
const PAYMENT_MS = '60';

/** Runs three instances on one Redis until Ctrl-C. */
export function run(step: Step): Promise<never> {
  return runWithRedis(step, async (redis) => {
    const instances = await spawnInstances(redis);
    const end = await withInstances(step, instances, async () => {
      printIntroduction(redis, instances);
      for (const instance of instances) instance.startReports();
      await Promise.all(instances.map(reportCrash));
    });
    const isStopped = typeof end === 'string';
    console.log(isStopped ? '\nStopped.' : '\nNo instance is left.');
    return isStopped ? 0 : 1;
  });
}

function spawnInstances(redis: RedisServer | RedisNotFoundError): Promise<Instance[]> {
  if (redis instanceof Error) return Instance.spawn(1, { STORE: 'memory', PAYMENT_MS }, 'inherit');
  return Instance.spawn(INSTANCES, { REDIS_URL: redis.url, STORE: '', PAYMENT_MS }, 'inherit');
}

function printIntroduction(redis: RedisServer | RedisNotFoundError, instances: readonly Instance[]): void {
  const [first] = instances;
  console.log(`
${redis instanceof Error ? withoutRedis(redis) : `Redis      ${redis.description}, port ${redis.port}`}
Instances  ${instances.map(({ url, pid }) => `${url} (pid ${pid})`).join('\n           ')}

Open ${first?.url} to see the sale with a lock and without one.
Open ${first?.url}/locks to see which locks are held, and which instances wait.

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
  curl -d amount=20 localhost:${first}/goods/11/restock
  curl -X POST localhost:${second}/goods/11/buy
  curl localhost:${third}/goods/11

${BUYERS} buyers at once for 20 pieces, of goods 12 with the lock and of goods 13 without; then look what was sold:
  curl -d amount=20 'localhost:${first}/goods/{12,13}/restock'
  ${silent} '${everywhere}/goods/12/buy?[1-${each}]'
  ${silent} '${everywhere}/goods/13/buy-unlocked?[1-${each}]'
  curl 'localhost:${first}/goods/{12,13}'`;
}

/** Prints that an instance has ended by itself. The others continue. */
async function reportCrash(instance: Instance): Promise<void> {
  const how = await instance.crashed();
  if (how === undefined) return;
  console.error(`The instance on port ${instance.port} has ended (${how}). The others go on.`);
}
