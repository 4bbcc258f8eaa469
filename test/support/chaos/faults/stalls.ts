import { ALL_STORES, type Fault, leases } from './fault.js';

/** Faults that keep a living server from serving, or make it close connections. */

const PAUSE_MS = 1_500;
/** Longer than any wait for the lease of a process that is stopped. */
const STOPPED_MS = 5_500;

const clientPause: Fault = {
  name: 'CLIENT PAUSE',
  what: 'the server puts off all commands, with a request of a process that is stopped until all others have waited',
  ablation: 'lease',
  breaks: 'wait',
  terms: leases(2_000, { requestTimeoutMs: 500, waitMs: 14_000 }),
  // The request runs, and keeps the lock closed for its lease.
  promises: { waitMs: 5_000, refuses: true },
  // The other masters may grant the lock to the process that is then stopped past its lease.
  stores: { ...ALL_STORES, quorum: { losesHolds: true } },
  async inject(scene) {
    const { fleet, random } = scene;
    await fleet.rest();
    const caller = fleet.other(random);
    scene.injected(this.name);
    await scene.victim.admin.call('CLIENT', 'PAUSE', PAUSE_MS, 'ALL');
    fleet.go([caller]);
    await scene.sleep(PAUSE_MS / 4);
    caller.stop();
    await scene.sleep(PAUSE_MS);
    fleet.go();
    await scene.sleep(STOPPED_MS);
    caller.goOn();
    scene.healed(this.name);
    await scene.settle();
  },
};

const debugSleep: Fault = {
  name: 'DEBUG SLEEP',
  what: 'the server sleeps for longer than the lease, after the last check of the lock; the holder writes late',
  ablation: 'fence',
  breaks: 'fenced update lost',
  terms: leases(900, { requestTimeoutMs: 500 }),
  promises: { waitMs: 6_000, refuses: true, losesHolds: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 4_000, { lookAfterMs: 50 });
    await fleet.looked(holder);
    scene.injected(this.name);
    await Promise.all(scene.topology.servers.map(({ admin }) => admin.call('DEBUG', 'SLEEP', '1.5')));
    scene.healed(this.name);
    await fleet.written(holder);
    await scene.settle();
  },
};

const IDLE_S = 3;
/** The server looks for idle connections once a second. */
const CLOSED_MS = (IDLE_S + 1) * 1_000 + 500;

const idleClosed: Fault = {
  name: 'CONFIG SET timeout',
  what: 'the server closes connections that are idle for 3 s, while a renewal is held up on its way',
  ablation: 'unknown is not lost',
  breaks: 'hold lost',
  // The first renewal is sent before the server closes the connection, and the lease outlasts that.
  terms: leases(8_000, { requestTimeoutMs: 4_500, waitMs: 18_000 }),
  promises: { waitMs: 14_000, refuses: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random, topology } = scene;
    const setTimeoutTo = (seconds: number): Promise<unknown> =>
      Promise.all(topology.servers.map(({ admin }) => admin.config('SET', 'timeout', seconds)));
    const holder = fleet.other(random);
    await fleet.longHold(holder, 9_000);
    // A handed-off lock is renewed at once.
    await scene.sleep(150);
    scene.injected(this.name);
    await setTimeoutTo(IDLE_S);
    for (const way of holder.ways) way.hold('requests');
    await scene.sleep(CLOSED_MS);
    for (const way of holder.ways) way.resume('requests');
    await fleet.longHoldsEnd();
    await setTimeoutTo(0);
    scene.healed(this.name);
    await scene.settle();
  },
};

export const stallFaults = [clientPause, debugSleep, idleClosed] as const;
