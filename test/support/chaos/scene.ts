import { machineMs } from '../random.js';
import { eventually } from '../redis-locks.js';
import type { Fault } from './faults/fault.js';
import type { Fleet } from './fleet/fleet.js';
import type { Member } from './fleet/member.js';
import type { HarnessEvent } from './history/events.js';
import type { LockServer, Topology } from './topology/index.js';
import { QUEUE } from './workload/key.js';

/** What a fault can use, and where it records what it does. */
export class Scene {
  readonly events: HarnessEvent[] = [];
  private isInjured = false;

  constructor(
    readonly fleet: Fleet,
    readonly topology: Topology,
    /** How long all members may take to get the lock again. */
    private readonly settlesWithinMs: number,
  ) {}

  get victim(): LockServer {
    return this.topology.victim;
  }

  /** Returns the topology as the given class. Throws if it is another. */
  on<Kind extends Topology>(kind: { readonly prototype: Kind; readonly name: string }): Kind {
    const { topology } = this;
    if (!Object.prototype.isPrototypeOf.call(kind.prototype, topology))
      throw new Error(`the fault needs a ${kind.name}`);
    return topology as Kind;
  }

  /**
   * Injects a fault: makes members hold the lock as it needs them, lets it do its work, and waits until all members
   * have had the lock again. Replaces those that it has ended.
   */
  async inject(fault: Fault): Promise<void> {
    const { fleet } = this;
    const { ms = 0, by = 1, looked = false, waitedFor = false, ...how } = fault.held ?? { by: 0 };
    const holders = fleet.some(by);
    if (by > 0) await fleet.longHolds(holders, ms, how);
    if (looked) await Promise.all(holders.map((holder) => fleet.looked(holder)));
    if (waitedFor) await fleet.allWait(...holders);
    this.injected();
    await fault.inject(this, ...holders);
    this.healed();
    await this.settle();
    await fleet.fill();
  }

  injected(): void {
    this.isInjured = true;
    this.events.push({ kind: 'injected', at: machineMs() });
  }

  /** Records that the fault is over, unless it was before. */
  healed(): void {
    if (this.isInjured) this.events.push({ kind: 'healed', at: machineMs() });
    this.isInjured = false;
  }

  /** Makes a server lose its data, or deletes the lock's key on all servers. Records when. */
  async lose(kind: 'dataLost' | 'lockDeleted', how: () => Promise<unknown>): Promise<void> {
    const at = machineMs();
    await how();
    this.events.push({ kind, at, to: machineMs() });
  }

  /** Makes a member release the lock of another member's long hold by force, and records when. */
  async forceRelease(former: Member, operator: Member): Promise<void> {
    const { longHold } = former;
    if (longHold === undefined) throw new Error(`${former.name} has no long hold`);
    this.events.push({ kind: 'forced', former: longHold, at: machineMs() });
    await this.fleet.forceRelease(operator);
  }

  /** Sets the server's clock ahead of the machine's, and records both readings. */
  async setClock(aheadMs: number): Promise<void> {
    await this.readClock();
    this.victim.clock?.runAhead(aheadMs);
    await this.readClock();
  }

  /** Does something at all servers. */
  async atServers(what: (admin: LockServer['admin']) => Promise<unknown>): Promise<void> {
    await Promise.all(this.topology.servers.map(({ admin }) => what(admin)));
  }

  /** Waits until the queue of the lock has this many entries. The waiters of a process share one. */
  async queued(count: number): Promise<void> {
    await eventually(`${count} are in the queue`, async () => (await this.victim.admin.zcard(QUEUE)) === count);
  }

  /**
   * Waits until all members have had the lock again and all long holds are over. Does not throw if the first takes too
   * long: the checker finds it.
   */
  async settle(): Promise<void> {
    await this.fleet.allEnter(this.settlesWithinMs);
    await this.fleet.longHoldsEnd();
  }

  private async readClock(): Promise<void> {
    const [seconds, micros] = (await this.victim.admin.time()).map(Number);
    this.events.push({ kind: 'clock', at: machineMs(), server: seconds * 1_000 + micros / 1_000 });
  }
}
