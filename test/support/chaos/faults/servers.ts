import { setTimeout as sleep } from 'node:timers/promises';
import { KEY } from '../workload/key.js';
import { type Fault, leases, OTHERS } from './fault.js';

const REQUEST_MS = 500;
/** The server has lost the lock, and two callers may hold it. */
const LOST = { losesHolds: true, overlapMs: Infinity } as const;

/** Faults of the lock's servers. Of several masters, one is hit. */
export const serverFaults: readonly Fault[] = [
  {
    name: 'server stopped',
    what: 'SIGSTOP with a request in its socket, whose process is killed; SIGCONT when its time is over',
    control: { without: 'lease', breaks: 'wait' },
    terms: leases(2_000, { requestTimeoutMs: REQUEST_MS, waitMs: 14_000 }),
    // The request runs, and keeps the lock closed for its lease.
    promises: { waitMs: 5_000, refuses: true },
    others: OTHERS,
    async inject({ fleet, victim: { server } }) {
      await fleet.rest();
      const caller = fleet.other();
      server.pause();
      fleet.go([caller]);
      await sleep(REQUEST_MS / 2);
      await caller.kill();
      await sleep(REQUEST_MS);
      server.resume();
      fleet.go();
    },
  },
  {
    name: 'server killed',
    what: 'kill -9 and a restart with its data; the hold ends while it is down',
    control: { without: 'repeated releases', breaks: 'wait' },
    terms: leases(12_000, { requestTimeoutMs: REQUEST_MS, waitMs: 16_000 }),
    promises: { waitMs: 8_000, refuses: true },
    others: OTHERS,
    durable: true,
    held: { ms: 600 },
    async inject({ victim: { server } }) {
      await server.kill();
      await sleep(1_000);
      await server.restart();
    },
  },
  {
    name: 'server restarted empty',
    what: 'kill -9 and a restart without its data, while the lock is held',
    control: { without: 'tokens by the clock', breaks: 'token' },
    terms: leases(900, { requestTimeoutMs: REQUEST_MS }),
    promises: { waitMs: 6_000, refuses: true, ...LOST },
    // The documentation of `quorum` warns of it: the next majority need not know what one of three forgot.
    others: OTHERS,
    held: { ms: 2_000 },
    async inject(scene) {
      await sleep(1_100);
      await scene.lose('dataLost', () => scene.victim.server.restart());
    },
  },
  {
    name: 'FLUSHALL',
    what: 'all data is flushed while the lock is held, after the last check of it',
    control: { without: 'fence', breaks: 'fenced update lost' },
    terms: leases(900),
    promises: { waitMs: 6_000, ...LOST },
    others: OTHERS,
    held: { ms: 4_000, looked: true },
    async inject(scene, holder) {
      await scene.lose('dataLost', () => scene.atServers((admin) => admin.flushall()));
      await scene.fleet.entry(scene.fleet.others(holder));
    },
  },
  {
    name: 'key deleted by hand',
    what: "DEL of the lock's key while it is held; the next holder holds it for long",
    control: { without: 'owner check of renewals', breaks: 'overlap' },
    terms: leases(900),
    // Until the next renewal, after a third of the lease.
    promises: { waitMs: 6_000, losesHolds: true, overlapMs: 700 },
    // The timestamp protocol has no owner in its values: a renewal takes another holder's value for its own.
    others: { ...OTHERS, timestamp: { overlapMs: Infinity } },
    held: { ms: 3_500 },
    async inject(scene, holder) {
      const { fleet } = scene;
      await scene.lose('lockDeleted', () => scene.atServers((admin) => admin.del(KEY)));
      await fleet.longHold(fleet.other(holder), 1_800);
    },
  },
  {
    name: 'SCRIPT FLUSH',
    what: 'SCRIPT FLUSH on all servers, several times',
    control: { without: 'scripts sent again', breaks: 'wait' },
    terms: leases(1_000),
    promises: { waitMs: 5_000 },
    others: OTHERS,
    async inject(scene) {
      for (let i = 0; i < 5; i += 1) {
        await scene.atServers((admin) => admin.script('FLUSH'));
        await sleep(scene.fleet.random() * 100);
      }
    },
  },
];

/** A fault of a server whose memory is full. */
export const outOfMemory: Fault = {
  name: 'maxmemory, noeviction',
  what: 'the server refuses writes that need memory while the lock is renewed and released',
  control: { without: 'renewals without memory', breaks: 'hold lost' },
  terms: leases(2_500),
  // Without a release, the lock would stay closed for a lease after the fault.
  promises: { waitMs: 9_000, freeMs: 1_800, refuses: true, keepsUpdates: true },
  others: { ...OTHERS, timestamp: { keepsUpdates: undefined } },
  // Longer than the lease, so that the holds need renewals without memory.
  held: { ms: 3_500, waitedFor: true },
  async inject(scene) {
    await scene.atServers((admin) => admin.config('SET', 'maxmemory', '1'));
    await scene.fleet.longHoldsEnd();
    await sleep(200);
    await scene.atServers((admin) => admin.config('SET', 'maxmemory', '0'));
  },
};

const JUMP_MS = 120_000;

/** Faults that set wall clocks. Monotonic clocks cannot be set. */
export const clockFaults: readonly Fault[] = [
  {
    name: "server's clock +2 min",
    what: 'all leases end at once while the lock is held, after the last check of it',
    control: { without: 'fence', breaks: 'fenced update lost' },
    terms: leases(900),
    promises: { waitMs: 6_000, refuses: true, ...LOST },
    others: OTHERS,
    clocks: 'servers',
    held: { ms: 4_000, looked: true },
    async inject(scene, holder) {
      const { fleet } = scene;
      await scene.setClock(JUMP_MS);
      scene.healed();
      await fleet.entry(fleet.others(holder));
      await scene.settle();
      // Set back when no process holds the lock. Otherwise keys would live two minutes longer.
      await fleet.rest();
      await scene.setClock(0);
      fleet.go();
    },
  },
  {
    name: "server's clock −2 min",
    what: "the server's clock is set back while the lock is held",
    control: { without: 'tokens above the last', breaks: 'token' },
    terms: leases(900),
    promises: { waitMs: 6_000 },
    others: OTHERS,
    clocks: 'servers',
    held: { ms: 1_200 },
    async inject(scene) {
      const { fleet } = scene;
      await scene.setClock(-JUMP_MS);
      scene.healed();
      await scene.settle();
      await fleet.rest();
      await scene.setClock(0);
      fleet.go();
    },
  },
  {
    name: "client's clock ±2 min",
    what: "the holder's wall clock is set back while it holds the lock, and forward when it holds it again",
    control: { without: 'monotonic clock', breaks: 'overlap' },
    terms: leases(900),
    promises: { waitMs: 6_000 },
    // The timestamp protocol requires that its clients' clocks agree.
    others: { redisson: {}, quorum: {} },
    clocks: 'clients',
    async inject(scene) {
      const holder = scene.fleet.other();
      for (const ms of [-JUMP_MS, 0, JUMP_MS, 0]) {
        await scene.fleet.longHold(holder, 2_000);
        await sleep(100);
        scene.injected();
        holder.clock?.runAhead(ms);
        scene.healed();
        await scene.settle();
      }
    },
  },
];
