import { Instance } from './launch/instance.js';
import { INTERRUPTED, runWithRedis, type Step, withInstances } from './launch/run.js';
import { holdSale, type Sale } from './launch/sale.js';
import { table } from './launch/table.js';
import { settings } from './settings.js';

const INSTANCES = 3;
const STOCK = 20;
const BUYERS = 60;

/** Runs the same sale with the lock and without. Returns exit code 0 only if the lock made the difference. */
export function run(step: Step): Promise<never> {
  return runWithRedis(step, async (redis) => {
    if (redis instanceof Error) {
      console.error(
        `${redis.message}\n\nWithout Redis this demo can prove nothing: the memory store excludes no other process.`,
      );
      return 1;
    }
    const instances = await Instance.spawn(INSTANCES, { REDIS_URL: redis.url, STORE: '' }, 'ignore');
    const exitCode = await withInstances(step, instances, async () => {
      console.log(`\nA flash sale: ${STOCK} in stock, ${BUYERS} buyers at once.`);
      console.log(`Redis      ${redis.description}, port ${redis.port}`);
      console.log(`Instances  ${instances.map(({ url }) => url).join('  ')}\n`);
      const sale = { stock: STOCK, buyers: BUYERS };
      const locked = await holdSale(instances, { ...sale, id: 1, path: 'buy' });
      const unlocked = await holdSale(instances, { ...sale, id: 2, path: 'buy-unlocked' });
      return judge(locked, unlocked);
    });
    return typeof exitCode === 'number' ? exitCode : INTERRUPTED;
  });
}

function judge(locked: Sale, unlocked: Sale): number {
  console.log(table([row("@Locked('goods:<id>')", locked), row('without the lock', unlocked)]));
  console.log(
    `  The sale with the lock takes longer: ${locked.sold} payments of ${settings.paymentMs} ms, one after another.\n`,
  );
  const isExact = locked.sold === STOCK && locked.left === 0 && locked.oversold === 0;
  const isOversold = unlocked.oversold > 0;
  console.log(
    isExact ? '✔ With the lock every piece was sold once.' : '✘ With the lock the stock was not sold exactly once.',
  );
  console.log(
    isOversold
      ? `✔ Without it ${unlocked.oversold} buyers paid for goods that do not exist.`
      : '✘ Without it nothing was oversold: this run proves nothing about the lock.',
  );
  return isExact && isOversold ? 0 : 1;
}

function row(title: string, { stock, buyers, sold, left, oversold, elapsedMs }: Sale) {
  return {
    '': title,
    'stock at start': stock,
    buyers,
    'sold (201)': sold,
    'stock left': left,
    oversold,
    took: `${Math.round(elapsedMs)} ms`,
  };
}
