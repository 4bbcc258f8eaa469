// Many tasks in one process, each with its own key.
import { entries } from '../entries/index.mjs';
import { ours } from '../entries/ours.mjs';
import { connect } from '../library.mjs';
import { bestPeer, interleaved, ratio, rowsOf } from '../measure.mjs';
import { openAll } from '../opened.mjs';
import { roundsOf } from '../settings.mjs';
import { stated, target } from '../targets.mjs';

const TASKS = 100;
const SLICE_MS = 125;

export async function run(plan) {
  const { redis, lockOf, close } = await openAll(entries, { autoPipelining: true });
  const admin = await connect(redis.url);
  const cycleAll = async (entry, forMs) => {
    const lock = lockOf(entry);
    const waits = [];
    const serverBefore = await serverCpuMs(admin);
    const cpuBefore = process.cpuUsage();
    const start = performance.now();
    const stopAt = start + forMs;
    const cycles = async (_, task) => {
      for (let last = start; last < stopAt;) {
        await lock.cycle(`goods:${task}`);
        const end = performance.now();
        waits.push(end - last);
        last = end;
      }
    };
    await Promise.all(Array.from({ length: TASKS }, cycles));
    const took = performance.now() - start;
    const { user, system } = process.cpuUsage(cpuBefore);
    const serverMs = (await serverCpuMs(admin)) - serverBefore;
    const count = waits.length;
    const perSecond = count / (took / 1000);
    return { figures: { perSecond, cpuUs: (user + system) / count, serverUs: (serverMs / count) * 1000 }, waits };
  };
  // The code of every entry is compiled by then.
  for (const entry of entries) await cycleAll(entry, 4 * SLICE_MS);
  const turn = (entry) => cycleAll(entry, SLICE_MS);
  const measured = await interleaved({ entries, rounds: roundsOf(plan), slices: plan.quick ? 2 : 4, turn });
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
        'Each task cycles on its own key. Clients have automatic pipelining. CPU is of the whole process, user and system.',
      columns: [
        { figure: 'perSecond', title: 'cycles/s', digits: 0 },
        { figure: 'cpuUs', title: 'µs of CPU a cycle', digits: 1 },
        { figure: 'serverUs', title: "µs of the server's CPU a cycle", digits: 1 },
      ],
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

/** Returns the user and system time of the server, in ms. */
async function serverCpuMs(admin) {
  const info = await admin.info('cpu');
  const secondsOf = (kind) => Number(new RegExp(`^used_cpu_${kind}:([\\d.]+)`, 'm').exec(info)[1]);
  return 1000 * (secondsOf('user') + secondsOf('sys'));
}
