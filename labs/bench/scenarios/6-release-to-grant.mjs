// Measures the time from a release to the grant in another process, and the time of a message between the processes.
import { now, sleep } from '../clock.mjs';
import { entries, open } from '../entries/index.mjs';
import { connect } from '../library.mjs';
import { interleaved, medianOf, rowsOf } from '../measure.mjs';
import { Worker } from '../processes.mjs';
import { startRedis } from '../redis.mjs';
import { roundsOf } from '../settings.mjs';
import { stated, target } from '../targets.mjs';

const KEY = 'goods:300';
const message = { name: 'raw PUBLISH → message', kind: 'floor' };
const roundTrip = { name: 'raw round trip', kind: 'floor' };

const locks = new Map();
let mine;
let client;
let subscriber;

/** The operations of the two processes. */
export const ops = {
  async open(names, url) {
    for (const name of names) locks.set(name, await open(name, url));
    client = await connect(url);
    subscriber = await connect(url);
    await subscriber.subscribe('channel');
  },
  async take(name) {
    mine = await locks.get(name).acquire(KEY);
  },
  async free(name) {
    const at = now();
    await locks.get(name).release(mine);
    return at;
  },
  async wait(name) {
    const lock = locks.get(name);
    const handle = await lock.acquire(KEY);
    const at = now();
    await lock.release(handle);
    return at;
  },
  async publish() {
    const at = now();
    await client.publish('channel', 'x');
    return at;
  },
  /** Returns the milliseconds of a call of an empty script. */
  async ping() {
    const at = now();
    await client.eval('return 1', 0);
    return now() - at;
  },
  listen: () => new Promise((resolve) => subscriber.once('message', () => resolve(now()))),
};

export async function run(plan) {
  const redis = await startRedis();
  const names = entries.map(({ name }) => name);
  const [a, b] = [new Worker('6-release-to-grant.mjs'), new Worker('6-release-to-grant.mjs')];
  await Promise.all([a, b].map((worker) => worker.call('open', names, redis.url)));

  const times = plan.quick ? 10 : 40;
  // Long enough for the waiter to wait. The length varies, so that the release comes at any time between two polls.
  const pause = () => sleep(10 + Math.random() * 10);
  const lockLatency = async (name) => {
    await a.call('take', name);
    const granted = b.call('wait', name);
    await pause();
    const released = await a.call('free', name);
    return (await granted) - released;
  };
  const messageLatency = async () => {
    const received = b.call('listen');
    await pause();
    const sent = await a.call('publish');
    return (await received) - sent;
  };
  const compared = [message, roundTrip, ...entries];
  const turn = async (entry) => {
    const waits = [];
    for (let i = 0; i < times; i++) {
      if (entry === message) waits.push(await messageLatency());
      else if (entry === roundTrip) waits.push(await b.call('ping', await pause()));
      else waits.push(await lockLatency(entry.name));
    }
    return { figures: { ms: waits.toSorted((x, y) => x - y)[times >> 1] }, waits };
  };
  const measured = await interleaved({ entries: compared, rounds: roundsOf(plan), turn });
  await Promise.all([a.stop(), b.stop()]);
  redis.stop();
  const ours = measured.get('nestjs-redis-lock');
  const raw = ({ name }) => medianOf(measured.get(name), 'ms');
  return [
    {
      id: '6',
      title: 'Release → grant in another process',
      method: `${times} times a round, one waiter; from just before the call of release to the waiter's continuation.`,
      columns: [{ figure: 'ms', title: 'ms', digits: 3 }],
      tail: 'one',
      rows: rowsOf(compared, measured),
      targets: [
        target('6', '÷ (message + round trip)', medianOf(ours, 'ms') / (raw(message) + raw(roundTrip))),
        stated('raw PUBLISH → message', raw(message), 'ms'),
        stated('raw round trip', raw(roundTrip), 'ms'),
      ],
    },
  ];
}
