// Many tasks in one process, each with its own key.
import { entriesOf, parallelEntriesOf } from '../entries/index.mjs';
import { BEFORE, ours } from '../entries/ours.mjs';
import { measureKeys, parallelColumns } from '../distinct-keys.mjs';
import { connect } from '../library.mjs';
import { bestPeer, ratio, rowsOf } from '../measure.mjs';
import { openAll } from '../opened.mjs';
import { stated, target } from '../targets.mjs';

const TASKS = 100;

export async function run(plan) {
  const entries = parallelEntriesOf(plan);
  const { redis, lockOf, close } = await openAll(entries, { autoPipelining: true });
  const admin = await connect(redis.url);
  const measured = await measureKeys({ plan, entries, lockOf, tasks: TASKS, admins: [admin] });
  admin.disconnect();
  await close();

  const own = measured.get(ours.name);
  const against = (floor, figure = 'perSecond') => ratio(own, measured.get(floor), figure);
  const best = bestPeer(entriesOf(plan), measured, 'perSecond', 'more');
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
        target('2', 'cycles/s ÷ best peer', against(best), best),
        target('2', "the server's CPU a cycle ÷ raw pair", against('raw pair', 'serverUs')),
        ...(measured.has('our scripts, bare') ? againstBare(measured, against) : []),
        ...(measured.has(BEFORE) ? [stated('cycles/s ÷ before', against(BEFORE))] : []),
      ],
    },
  ];
}

const againstBare = (measured, against) => [
  target('2', 'cycles/s ÷ bare scripts', against('our scripts, bare')),
  stated(
    'cycles/s, bare scripts ÷ raw pair',
    ratio(measured.get('our scripts, bare'), measured.get('raw pair'), 'perSecond'),
  ),
];
