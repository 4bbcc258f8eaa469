import { ALL_STORES, type Fault, leases } from './fault.js';

/** Faults that set wall clocks. Monotonic clocks cannot be set. */

const JUMP_MS = 120_000;

const serverForward: Fault = {
  name: "server's clock +2 min",
  what: 'all leases end at once while the lock is held, after the last check of it',
  ablation: 'fence',
  breaks: 'fenced update lost',
  terms: leases(900),
  promises: { waitMs: 6_000, losesHolds: true, overlapMs: Infinity, refuses: true },
  stores: ALL_STORES,
  clocks: 'servers',
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 4_000);
    await fleet.looked(holder);
    await scene.readClock();
    scene.injected(this.name);
    scene.victim.clock?.runAhead(JUMP_MS);
    await scene.readClock();
    scene.healed(this.name);
    await fleet.entry((member) => member !== holder);
    await scene.settle();
    // Set back when no process holds the lock. Otherwise keys would live two minutes longer.
    await fleet.rest();
    scene.victim.clock?.runAhead(0);
    await scene.readClock();
    fleet.go();
    await scene.settle();
  },
};

const serverBack: Fault = {
  name: "server's clock −2 min",
  what: "the server's clock is set back while the lock is held",
  ablation: 'tokens above the last',
  breaks: 'token',
  terms: leases(900),
  promises: { waitMs: 6_000 },
  stores: ALL_STORES,
  clocks: 'servers',
  async inject(scene) {
    const { fleet, random } = scene;
    await fleet.longHold(fleet.other(random), 1_200);
    await scene.readClock();
    scene.injected(this.name);
    scene.victim.clock?.runAhead(-JUMP_MS);
    await scene.readClock();
    scene.healed(this.name);
    await scene.settle();
    await fleet.rest();
    scene.victim.clock?.runAhead(0);
    await scene.readClock();
    fleet.go();
    await scene.settle();
  },
};

const clientJumps: Fault = {
  name: "client's clock ±2 min",
  what: "the holder's wall clock is set back while it holds the lock, and forward when it holds it again",
  ablation: 'monotonic clock',
  breaks: 'overlap',
  terms: leases(900),
  promises: { waitMs: 6_000 },
  // The timestamp protocol requires that its clients' clocks agree.
  stores: { token: {}, redisson: {}, quorum: {} },
  clocks: 'clients',
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    for (const ms of [-JUMP_MS, 0, JUMP_MS, 0]) {
      await fleet.longHold(holder, 2_000);
      await scene.sleep(100);
      scene.injected(this.name);
      holder.clock?.runAhead(ms);
      scene.healed(this.name);
      await scene.settle();
    }
  },
};

export const clockFaults = [serverForward, serverBack, clientJumps] as const;
