// The same cycles as in the scenarios 1 and 2, by ioredis and by node-redis.
import { measureKeys, parallelColumns } from '../distinct-keys.mjs';
import { clientEntries } from '../entries/index.mjs';
import { oursNodeRedis, rawNodeRedis } from '../entries/node-redis.mjs';
import { ours } from '../entries/ours.mjs';
import { raw } from '../entries/raw.mjs';
import { connect } from '../library.mjs';
import { ratio, rowsOf } from '../measure.mjs';
import { openAll } from '../opened.mjs';
import { measureCycles, sequentialColumns, sequentialMethod } from '../sequential.mjs';
import { stated } from '../targets.mjs';

const TASKS = 100;

export async function run(plan) {
  const alone = await openAll(clientEntries);
  const cycles = await measureCycles({ plan, entries: clientEntries, lockOf: alone.lockOf, part: [0, 0.5] });
  await alone.close();

  const wide = await openAll(clientEntries, { autoPipelining: true });
  const admin = await connect(wide.redis.url);
  const shared = { plan, entries: clientEntries, lockOf: wide.lockOf, admins: [admin] };
  const keys = await measureKeys({ ...shared, tasks: TASKS, part: [0.5, 1] });
  admin.disconnect();
  await wide.close();

  const quotients = (measured, figure, what) => [
    stated(
      `${what}, node-redis ÷ its raw pair`,
      ratio(measured.get(oursNodeRedis.name), measured.get(rawNodeRedis.name), figure),
    ),
    stated(`${what}, ioredis ÷ its raw pair`, ratio(measured.get(ours.name), measured.get(raw.name), figure)),
    stated(`${what}, node-redis ÷ ioredis`, ratio(measured.get(oursNodeRedis.name), measured.get(ours.name), figure)),
  ];
  return [
    {
      id: '15',
      title: 'ioredis and node-redis, one after the other',
      method: sequentialMethod(plan),
      columns: sequentialColumns,
      tail: 'a cycle',
      rows: rowsOf(clientEntries, cycles),
      targets: quotients(cycles, 'us', 'µs a cycle'),
    },
    {
      id: '15b',
      title: `ioredis and node-redis, ${TASKS} distinct keys`,
      method:
        'The ioredis clients have automatic pipelining. node-redis writes the commands of a tick together by itself.',
      columns: parallelColumns,
      tail: 'a cycle',
      rows: rowsOf(clientEntries, keys),
      targets: quotients(keys, 'perSecond', 'cycles/s'),
    },
  ];
}
