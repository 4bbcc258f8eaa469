// Many tasks in one process, each with its own key.
import { parallelEntries as entries } from '../entries/index.mjs';
import { ours } from '../entries/ours.mjs';
import { measureKeys, parallelColumns } from '../distinct-keys.mjs';
import { connect } from '../library.mjs';
import { bestPeer, ratio, rowsOf } from '../measure.mjs';
import { openAll } from '../opened.mjs';
import { stated, target } from '../targets.mjs';

const TASKS = 100;

export async function run(plan) {
  const { redis, lockOf, close } = await openAll(entries, { autoPipelining: true });
  const admin = await connect(redis.url);
  const measured = await measureKeys({ plan, entries, lockOf, tasks: TASKS, admins: [admin] });
  admin.disconnect();
  await close();

  const own = measured.get(ours.name);
  const against = (floor, figure = 'perSecond') => ratio(own, measured.get(floor), figure);
  const best = bestPeer(entries, measured, 'perSecond', 'more');
  return [
    {
      id: '2',
      title: `Distinct keys, ${TASKS} tasks in one process`,
      method:
        'Each task cycles on its own key. Clients have automatic pipelining, except where another setting is named. CPU is of the whole ' +
        'process, user and system.',
      columns: parallelColumns,
      tail: 'a cycle',
      rows: rowsOf(entries, measured),
      targets: [
        target('2', 'cycles/s ÷ raw pair', against('raw pair')),
        target('2', 'CPU a cycle ÷ raw pair', against('raw pair', 'cpuUs')),
        stated(`cycles/s ÷ best peer (${best})`, against(best)),
        target('2', "the server's CPU a cycle ÷ raw pair", against('raw pair', 'serverUs')),
        stated('cycles/s ÷ bare scripts', against('our scripts, bare')),
      ],
    },
  ];
}
