// The first cycles of a fresh process, one after the other.
import { coldEntries, openCold } from '../entries/index.mjs';
import { ours, oursUnawaited } from '../entries/ours.mjs';
import { interleaved, ratio, rowsOf } from '../measure.mjs';
import { Worker } from '../processes.mjs';
import { startRedis } from '../redis.mjs';
import { roundsOf } from '../settings.mjs';
import { stated, target } from '../targets.mjs';

/** The operations of the fresh process. */
export const ops = {
  async measure(name, url, cycles) {
    const lock = await openCold(name, url);
    // It waits for the connection and loads the scripts.
    await lock.cycle('goods:300');
    const start = performance.now();
    for (let i = 0; i < cycles; i++) await lock.cycle('goods:300');
    const us = ((performance.now() - start) / cycles) * 1000;
    await lock.close();
    return us;
  },
};

export async function run(plan) {
  const redis = await startRedis();
  const cycles = 500;
  const turn = async ({ name }) => {
    const worker = new Worker('1b-cold.mjs');
    const us = await worker.call('measure', name, redis.url, cycles);
    await worker.stop();
    return { figures: { us } };
  };
  const measured = await interleaved({ entries: coldEntries, rounds: roundsOf(plan), turn });
  redis.stop();
  const against = (entry) => ratio(measured.get(entry.name), measured.get('raw pair'), 'us');
  return [
    {
      id: '1b',
      title: 'The same, cold',
      method: `The ${cycles} cycles that follow the first one, which connects and loads the scripts. Each round of each entry is a process of its own.`,
      columns: [{ figure: 'us', title: 'µs a cycle', digits: 1 }],
      rows: rowsOf(coldEntries, measured),
      targets: [
        target('1b', '÷ raw pair', against(ours)),
        stated('`awaitRelease: false` ÷ raw pair', against(oursUnawaited)),
      ],
    },
  ];
}
