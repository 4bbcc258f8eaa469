import { setTimeout as sleep } from 'node:timers/promises';
import { machineMs } from '../random.js';
import type { Fleet } from './fleet/fleet.js';
import type { Member } from './fleet/member.js';
import type { HarnessEvent } from './history/events.js';
import type { LockServer, Topology } from './topology/index.js';

/** What a fault can use, and where it records what it does. */
export class Scene {
  readonly events: HarnessEvent[] = [];

  constructor(
    readonly fleet: Fleet,
    readonly topology: Topology,
    /** Seeded by the run. All choices of a fault use it. */
    readonly random: () => number,
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

  now(): number {
    return machineMs();
  }

  sleep(ms: number): Promise<void> {
    return sleep(ms);
  }

  injected(fault: string): void {
    this.events.push({ kind: 'injected', fault, at: machineMs() });
  }

  healed(fault: string): void {
    this.events.push({ kind: 'healed', fault, at: machineMs() });
  }

  /** Makes a server lose its data, and records when. */
  async dataLost(how: () => Promise<unknown>): Promise<void> {
    const at = machineMs();
    await how();
    this.events.push({ kind: 'dataLost', at, to: machineMs() });
  }

  /** Deletes the lock's key, and records when. */
  async deleteLock(how: () => Promise<unknown>): Promise<void> {
    const at = machineMs();
    await how();
    this.events.push({ kind: 'lockDeleted', at, to: machineMs() });
  }

  /** Makes a member release the lock of another member's long hold by force, and records when. */
  async forceRelease(former: Member, operator: Member): Promise<void> {
    const { longHold } = former;
    if (longHold === undefined) throw new Error(`${former.name} has no long hold`);
    this.events.push({ kind: 'forced', former: longHold, at: machineMs() });
    await this.fleet.forceRelease(operator);
  }

  async readClock(): Promise<void> {
    const [seconds, micros] = (await this.victim.admin.time()).map(Number);
    this.events.push({ kind: 'clock', at: machineMs(), server: seconds * 1_000 + micros / 1_000 });
  }

  /**
   * Ends the long holds of these members. Waits until all members have had the lock again and all long holds are over.
   * Does not throw if that takes too long: the checker finds it.
   */
  async settle(...ending: readonly Member[]): Promise<void> {
    for (const member of ending) member.send({ kind: 'end' });
    await this.fleet.allEnter(this.settlesWithinMs);
    await this.fleet.longHoldsEnd();
  }
}
