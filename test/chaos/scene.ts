import { setTimeout as sleep } from 'node:timers/promises';
import { machineMs } from '../support/random.js';
import type { Fleet } from './fleet/fleet.js';
import type { Member } from './fleet/member.js';
import type { HarnessEvent } from './history/events.js';
import type { LockServer, Topology } from './topology/index.js';

/** What a fault can lay hands on, and where it tells what it does. */
export class Scene {
  readonly events: HarnessEvent[] = [];

  constructor(
    readonly fleet: Fleet,
    readonly topology: Topology,
    /** From the run's seed: whatever a fault chooses, it chooses by this. */
    readonly random: () => number,
    /** How long everybody may take to get the lock again. */
    private readonly settlesWithinMs: number,
  ) {}

  get victim(): LockServer {
    return this.topology.victim;
  }

  /** The topology, as what the fault takes it for. */
  on<Kind extends Topology>(kind: { readonly prototype: Kind; readonly name: string }): Kind {
    const { topology } = this;
    if (!Object.prototype.isPrototypeOf.call(kind.prototype, topology)) throw new Error(`this takes a ${kind.name}`);
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

  /** Does what makes a server lose its data. */
  async dataLost(how: () => Promise<unknown>): Promise<void> {
    const at = machineMs();
    await how();
    this.events.push({ kind: 'dataLost', at, to: machineMs() });
  }

  async readClock(): Promise<void> {
    const [seconds, micros] = (await this.victim.admin.time()).map(Number);
    this.events.push({ kind: 'clock', at: machineMs(), server: seconds * 1_000 + micros / 1_000 });
  }

  /**
   * Until everybody has had the lock again, and no hold of before lasts any longer: those of these members end now. That it
   * takes too long is for the checker to find.
   */
  async settle(...ending: readonly Member[]): Promise<void> {
    for (const member of ending) member.tell({ kind: 'end' });
    await this.fleet.everybodyEnters(this.settlesWithinMs);
    await this.fleet.longHoldsEnd();
  }
}
