import type { Direction, RedisProxy } from '../../proxy.js';
import type { Member } from '../fleet/member.js';
import { ALL_STORES, type Fault, leases } from './fault.js';

/** Faults of one process' connections to the servers. */

const LOST_WAY_MS = 900;
/** Longer than any wait for the lease of a process that gets no replies. */
const DEAF_MS = 7_000;

/** Ways to end a connection, and what is held up meanwhile: a renewal, or its reply. */
const ENDS: readonly { readonly lost: Direction; readonly end: (way: RedisProxy) => void }[] = [
  { lost: 'replies', end: (way) => way.reset() },
  { lost: 'replies', end: (way) => way.halfClose('client') },
  { lost: 'requests', end: (way) => way.halfClose('server') },
];

const connectionsEnded: Fault = {
  name: 'connections ended',
  what: "RST of the holder's connections, FIN to the holder, and FIN to the servers, each with a renewal under way",
  ablation: 'unknown is not lost',
  breaks: 'hold lost',
  terms: leases(2_400, { waitMs: 14_000 }),
  // The hold itself, and the next retry of a queued waiter.
  promises: { waitMs: 10_000, refuses: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    for (const { lost, end } of ENDS) {
      const holder = fleet.other(random);
      await fleet.longHold(holder, 3_500);
      scene.injected(this.name);
      // Its first renewal comes after 800 ms.
      for (const way of holder.ways) way.hold(lost);
      await scene.sleep(1_000);
      for (const way of holder.ways) {
        end(way);
        way.resume(lost);
      }
      scene.healed(this.name);
      await scene.settle();
    }
  },
};

const repliesDropped: Fault = {
  name: 'half-open: replies lost',
  what: 'a caller gets no replies for 8 s, while its requests are still served',
  ablation: 'giving up silent connections',
  breaks: 'wait',
  terms: leases(2_000, { requestTimeoutMs: 500, waitMs: 14_000 }),
  // The caller asks again until it replaces its connection, and then the lock is closed for its lease.
  promises: { waitMs: 5_500, refuses: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    await fleet.rest();
    const caller = fleet.other(random);
    scene.injected(this.name);
    for (const way of caller.ways) way.drop('replies');
    caller.absent(scene.now(), scene.now() + LOST_WAY_MS + DEAF_MS);
    fleet.go([caller]);
    await scene.sleep(LOST_WAY_MS);
    fleet.go();
    await scene.sleep(DEAF_MS);
    restore(caller);
    scene.healed(this.name);
    await scene.settle();
  },
};

const requestsDropped: Fault = {
  name: 'half-open: requests lost',
  what: "the holder's requests reach no server; the connection is reset after its lease",
  ablation: 'local deadline',
  breaks: 'overlap',
  terms: leases(900),
  promises: { waitMs: 7_000, refuses: true, losesHolds: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 4_000);
    scene.injected(this.name);
    for (const way of holder.ways) way.drop('requests');
    await fleet.entry((member) => member !== holder);
    await scene.sleep(500);
    restore(holder);
    scene.healed(this.name);
    await scene.settle();
  },
};

const repliesHeld: Fault = {
  name: 'replies held',
  what: 'the reply to a request arrives after its lease, while another process holds the lock',
  ablation: 'leases from before the request',
  breaks: 'overlap',
  terms: leases(800, { requestTimeoutMs: 5_000 }),
  promises: { waitMs: 8_000, refuses: true, losesHolds: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    await fleet.rest();
    const caller = fleet.other(random);
    const next = fleet.other(random, caller);
    scene.injected(this.name);
    for (const way of caller.ways) way.hold('replies');
    fleet.go([caller]);
    await scene.sleep(150);
    fleet.go();
    await scene.sleep(900);
    await fleet.longHold(next, 1_500);
    for (const way of caller.ways) way.resume('replies');
    scene.healed(this.name);
    await scene.settle();
  },
};

/** How long a request takes to fail, and its caller to connect again. */
const LATE_MS = 150;

const requestLate: Fault = {
  name: 'request arrives late',
  what: 'the connection of a request ends; the request arrives after its owner has had the lock and released it',
  ablation: 'releases after lost requests',
  breaks: 'wait',
  terms: leases(8_000, { waitMs: 14_000 }),
  // The release is sent again after 1 s, and after 3 s.
  promises: { waitMs: 4_500, refuses: true },
  stores: { token: {} },
  async inject(scene) {
    const { fleet, random } = scene;
    await fleet.rest();
    const caller = fleet.other(random);
    const entered = fleet.entry((member) => member === caller);
    scene.injected(this.name);
    for (const way of caller.ways) way.hold('requests');
    fleet.go([caller]);
    await scene.sleep(LATE_MS);
    const arrivals = caller.ways.map((way) => way.resetClients());
    for (const way of caller.ways) way.resume('requests');
    await entered;
    await fleet.rest();
    await scene.sleep(LATE_MS);
    for (const arrive of arrivals) arrive();
    await scene.sleep(LATE_MS);
    scene.healed(this.name);
    fleet.go();
    await scene.settle();
  },
};

export const networkFaults = [connectionsEnded, repliesDropped, requestsDropped, repliesHeld, requestLate] as const;

/** Resets the connections. After lost replies, later replies on them would be taken for those of other requests. */
function restore(member: Member): void {
  for (const way of member.ways) {
    way.reset();
    way.resume('replies');
    way.resume('requests');
  }
}
