// Ten thousand locks are held and renewed. Compared with a plain pipeline of ten thousand extensions.
import { createHook } from 'node:async_hooks';
import { setImmediate } from 'node:timers/promises';
import { sleep } from '../clock.mjs';
import { commandsSent } from '../commands.mjs';
import { ownCpuMs, serverCpuMs } from '../cpu.mjs';
import { openScripts } from '../entries/bare.mjs';
import { startInstance } from '../entries/ours.mjs';
import { inTasks } from '../in-tasks.mjs';
import { connect } from '../library.mjs';
import { interleaved, ratio, rowsOf } from '../measure.mjs';
import { startRedis } from '../redis.mjs';
import { stated, target } from '../targets.mjs';

const LOCKS = 10_000;
const TTL_MS = 3_000;
// The library renews at a third of the lease.
const ROUND_MS = TTL_MS / 3;

export async function run({ quick }) {
  const redis = await startRedis();
  const client = await connect(redis.url, { enableAutoPipelining: true });
  const instance = startInstance(client, { ttlMs: TTL_MS });
  const { service } = instance;
  await (await service.acquire('warm-up:1')).release();
  const timersOfOne = await timersOf(service, 1);
  const timersOfAll = await timersOf(service, LOCKS);

  const scripts = await openScripts(redis.url, { autoPipelining: true, leaseMs: TTL_MS });
  const keys = Array.from({ length: LOCKS }, (_, i) => `{lock_raw}:${i}`);
  const extendAll = async () => {
    const pipeline = scripts.client.pipeline();
    keys.forEach((key, i) => pipeline.evalsha(...scripts.extension(key, `raw:${i}`)));
    const replies = await pipeline.exec();
    const refused = replies.filter(([error, reply]) => error !== null || Number(reply) !== 1).length;
    if (refused > 0) throw new Error(`${refused} of the raw extensions were refused.`);
  };

  const renewals = quick ? 3 : 4;
  const turns = {
    raw: async () => {
      await inTasks(LOCKS, TASKS, (i) => scripts.acquire(keys[i], `raw:${i}`));
      return measure(async () => {
        for (let i = 0; i < renewals; i++) {
          await extendAll();
          await sleep(50);
        }
      });
    },
    ours: async () => {
      const locks = await acquireAll(service, LOCKS);
      await sleep(ROUND_MS);
      const figures = await measure(() => sleep(renewals * ROUND_MS));
      const lost = locks.filter(({ expiresInMs }) => expiresInMs === 0).length;
      await releaseAll(locks);
      if (lost > 0) throw new Error(`${lost} of ${LOCKS} locks were lost.`);
      return figures;
    },
  };
  const measure = async (work) => {
    const [commands, cpu] = [commandsSent(), process.cpuUsage()];
    const serverCpu = await serverCpuMs([scripts.client]);
    await work();
    const cpuMs = ownCpuMs(cpu);
    const server = (await serverCpuMs([scripts.client])) - serverCpu;
    // The two INFO commands of this measurement are not counted.
    const sent = commandsSent() - commands - 2;
    return { commands: sent / renewals, cpuMs: cpuMs / renewals, serverCpuMs: server / renewals };
  };
  const compared = [
    { name: 'raw pipeline of as many extensions', kind: 'floor', run: turns.raw },
    { name: 'nestjs-redis-lock', kind: 'ours', run: turns.ours },
  ];
  const turn = async (entry) => ({ figures: await entry.run() });
  const measured = await interleaved({ entries: compared, rounds: quick ? 1 : 3, turn });
  await instance.close();
  client.disconnect();
  scripts.client.disconnect();
  await redis.stop();

  const [raw, ours] = compared.map(({ name }) => measured.get(name));
  const quotient = (figure) => ratio(ours, raw, figure);
  return [
    {
      id: '7',
      title: '10,000 held locks, renewed',
      method: `Leases of ${TTL_MS} ms, renewed every ${ROUND_MS} ms; ${renewals} renewals of all locks a round. CPU is this process's, user and system, with everything it does meanwhile.`,
      columns: [
        { figure: 'commands', title: 'commands a renewal of all', digits: 0 },
        { figure: 'cpuMs', title: 'ms of CPU', digits: 1 },
        { figure: 'serverCpuMs', title: "ms of the server's CPU", digits: 1 },
      ],
      rows: rowsOf(compared, measured),
      targets: [
        stated('commands ÷ raw pipeline', quotient('commands')),
        target('7', 'CPU ÷ raw pipeline', quotient('cpuMs')),
        target('7', 'timers for 10,000 locks, more than for one', timersOfAll - timersOfOne),
        stated('CPU of the server ÷ raw pipeline', quotient('serverCpuMs')),
      ],
    },
  ];
}

// Limited: ten thousand requests at once would exceed their time limits.
const TASKS = 100;
const acquireAll = (service, count) => inTasks(count, TASKS, (i) => service.acquire(`goods:${i}`));
const releaseAll = (locks) => inTasks(locks.length, TASKS, (i) => locks[i].release());

/** Returns how many more timers are alive with that many locks held. */
async function timersOf(service, count) {
  const alive = new Set();
  const hook = createHook({
    init: (id, type) => type === 'Timeout' && alive.add(id),
    destroy: (id) => alive.delete(id),
  }).enable();
  const locks = await acquireAll(service, count);
  // Waits until the timeouts of completed requests are over.
  await sleep(1_100);
  // A timer that has fired is reported a moment later.
  for (let i = 0; i < 3; i++) await setImmediate();
  const timers = alive.size;
  hook.disable();
  await releaseAll(locks);
  return timers;
}
