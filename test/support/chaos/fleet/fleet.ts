import { setTimeout as sleep } from 'node:timers/promises';
import { machineMs, randomFrom } from '../../random.js';
import { eventually } from '../../redis-locks.js';
import type { AblationName } from '../ablations.js';
import type { Topology } from '../topology/index.js';
import type { WorkloadName } from '../workload/kinds.js';
import type { ClientName, LockTerms, Order, Report, StoreName } from '../workload/orders.js';
import { Member } from './member.js';

export type HoldDetails = Omit<Extract<Order, { kind: 'hold' }>, 'kind' | 'ms'>;

/** Options of all members. */
export interface FleetOptions {
  readonly store: StoreName;
  readonly workload: WorkloadName;
  readonly resource: string;
  readonly terms: LockTerms;
  readonly off: AblationName | undefined;
  /** The folder of their histories. */
  readonly folder: string;
  readonly seed: number;
  /** Gives each member a wall clock that can be set. */
  readonly clocks: boolean;
  /** Their client. Undefined: the module makes one. */
  readonly client: ClientName | undefined;
}

const MEMBERS = 4;
/** Without an order between processes, a caller that returns at once would keep all others out. */
const THINK_MS: Record<StoreName, number> = { token: 8, timestamp: 80, redisson: 80, quorum: 80 };
/** Starting takes a while on a busy machine. */
const START_MS = 60_000;
const STEP_MS = 30_000;
/** On top of a member's shutdown grace. */
const LEAVE_MS = 15_000;

/** The processes that compete for the lock. */
export class Fleet {
  /** All members, including those that have ended. */
  readonly all: Member[] = [];
  readonly crashes: string[] = [];
  private joined = 0;
  private passed = 0;
  private readonly seeds: () => number;
  private readonly watchers = new Set<(member: Member, report: Report) => void>();

  private constructor(
    private readonly topology: Topology,
    private readonly options: FleetOptions,
  ) {
    this.seeds = randomFrom(options.seed);
  }

  static async start(topology: Topology, options: FleetOptions): Promise<Fleet> {
    const fleet = new Fleet(topology, options);
    await Promise.all(Array.from({ length: MEMBERS }, () => fleet.join()));
    return fleet;
  }

  get members(): readonly Member[] {
    return this.all.filter(({ alive }) => alive);
  }

  fileOf(member: Member): string {
    return `${this.options.folder}/${member.name}.jsonl`;
  }

  /** Starts one more member. */
  async join(): Promise<Member> {
    const { store, workload, resource, terms, off, folder, client } = this.options;
    // Drawn before the first await, so that each member has its own.
    const name = `p${(this.joined += 1)}`;
    const seed = Math.floor(this.seeds() * 2 ** 31);
    const { places, ways } = await this.topology.access();
    const task = {
      name,
      store,
      places,
      resource,
      terms,
      workload,
      client,
      thinkMs: THINK_MS[store],
      seed,
      off,
      file: `${folder}/${name}.jsonl`,
    };
    const member = await Member.start(task, ways, this.options, (...args) => this.onReport(...args));
    this.all.push(member);
    await eventually(`${name} is ready`, () => this.crashes.length > 0 || member.instance !== '', START_MS);
    return member;
  }

  /** Chooses a member other than these. */
  other(random: () => number, ...not: readonly Member[]): Member {
    const others = this.members.filter((member) => !not.includes(member));
    return others[Math.floor(random() * others.length)];
  }

  /** Chooses `count` different members. */
  some(count: number, random: () => number): readonly Member[] {
    const some: Member[] = [];
    while (some.length < count) some.push(this.other(random, ...some));
    return some;
  }

  /** Makes a member hold the lock for `ms`. Resolves when the hold begins. */
  async longHold(member: Member, ms: number, more: HoldDetails = {}): Promise<void> {
    const held = this.next(
      (reporter, report) => reporter === member && report.kind === 'entered' && report.ordered === true,
    );
    member.send({ kind: 'hold', ms, ...more });
    await held;
  }

  /**
   * Makes members hold the lock for `ms` at the same time. Resolves when all do. Readers enter before any writer waits.
   */
  async longHolds(members: readonly Member[], ms: number, more: HoldDetails = {}): Promise<void> {
    const { reader = false } = more;
    if (reader) await this.rest();
    const held = Promise.all(members.map((member) => this.longHold(member, ms, more)));
    if (reader) this.go(members, true);
    await held;
    if (reader) this.go();
  }

  /** Waits until a member's long hold has checked its lock for the last time. */
  async looked(member: Member): Promise<void> {
    await eventually('it has checked its lock', () => member.looked || !member.busy, STEP_MS);
    if (!member.looked) throw new Error('its long hold ended before its last check');
  }

  /** Waits until the signal of a member's long hold has aborted. */
  async lost(member: Member): Promise<void> {
    await eventually('it has lost its lock', () => member.lost, STEP_MS);
  }

  /** Makes a member release the lock by force. Rejects if nobody held it. */
  async forceRelease(operator: Member): Promise<void> {
    const forced = this.next((member, report) => member === operator && report.kind === 'forced' && report.released);
    operator.send({ kind: 'force' });
    await forced;
  }

  /** Waits until a terminated member has exited. */
  async gone(member: Member): Promise<void> {
    await eventually(`${member.name} has exited`, () => !member.alive, STEP_MS);
    // Without its defence, a process ends in the middle of its work.
    if (!member.idle) member.absent(machineMs(), null);
  }

  /** Waits until all long holds are over. */
  async longHoldsEnd(): Promise<void> {
    await eventually('long holds end', () => this.members.every(({ busy }) => !busy), STEP_MS);
  }

  /** Waits until a matching member gets the lock. */
  async entry(fits: (member: Member) => boolean = () => true): Promise<Member> {
    return this.next((member, report) => report.kind === 'entered' && fits(member));
  }

  /**
   * Waits until another member has held the lock exclusively and written: a second such hold begins after the write.
   */
  async written(but: Member): Promise<void> {
    const fits = (member: Member, report: Report): boolean =>
      report.kind === 'entered' && report.mode === 'exclusive' && member !== but;
    await this.next(fits);
    await this.next(fits);
  }

  /** Waits until all other members wait for the lock. */
  async allWait(...but: readonly Member[]): Promise<void> {
    const waiting = (): boolean => this.members.every((member) => but.includes(member) || member.waits);
    await eventually('all others wait', waiting, STEP_MS);
  }

  /**
   * Waits until each member has had the lock once more, and all requests that wait now have ended. A second ordered
   * hold would otherwise double their wait. Returns false if that takes longer than `withinMs`.
   */
  async allEnter(withinMs: number): Promise<boolean> {
    const missing = new Set(this.members);
    const watch = (member: Member, report: Report): void => {
      if (report.kind === 'entered') missing.delete(member);
    };
    this.watchers.add(watch);
    const waiting = this.members.map((member) => ({ member, ops: [...member.waiting] }));
    const done = (): boolean =>
      [...missing].every(({ alive }) => !alive) &&
      waiting.every(({ member, ops }) => !member.alive || ops.every((op) => !member.waiting.has(op)));
    const entered = await eventually('all members enter', done, withinMs).then(
      () => true,
      () => false,
    );
    this.watchers.delete(watch);
    return entered;
  }

  /** Makes all members finish, and request nothing until `go`. */
  async rest(members: readonly Member[] = this.members): Promise<void> {
    for (const member of members) member.send({ kind: 'rest' });
    await eventually('all rest', () => members.every(({ idle }) => idle), STEP_MS);
  }

  /** @param readers only their readers. */
  go(members: readonly Member[] = this.members, readers = false): void {
    for (const member of members) member.send({ kind: 'go', readers });
  }

  /**
   * Makes all members leave. The last one removes what killed members left. Returns the names of those that did not
   * leave.
   */
  async leave(): Promise<readonly string[]> {
    for (const member of this.members) member.goOn();
    const [last, ...others] = this.members;
    const stayed = (await Promise.all(others.map((member) => this.part(member)))).flat();
    await this.entry((member) => member === last).catch(() => undefined);
    return [...stayed, ...(await this.part(last))];
  }

  /** Kills all members. */
  async end(): Promise<void> {
    await Promise.all(this.members.map((member) => member.kill()));
  }

  private async part(member: Member): Promise<readonly string[]> {
    member.send({ kind: 'leave' });
    const stayed = sleep(LEAVE_MS, [member.name], { ref: false });
    return Promise.race([member.exited.then(() => []), stayed]);
  }

  private async next(fits: (member: Member, report: Report) => boolean): Promise<Member> {
    let found: Member | undefined;
    const watch = (member: Member, report: Report): void => {
      if (fits(member, report)) found ??= member;
    };
    this.watchers.add(watch);
    try {
      await eventually('the expected report arrives', () => found !== undefined || this.crashes.length > 0, STEP_MS);
    } finally {
      this.watchers.delete(watch);
    }
    if (found === undefined) throw new Error(this.crashes.join('\n'));
    return found;
  }

  private onReport(member: Member, report: Report): void {
    if (report.kind === 'crash') this.crashes.push(`${member.name}: ${report.error}`);
    // One after another: among them one that is stopped, and one whose connections are cut.
    if (report.kind === 'pass') this.members[(this.passed += 1) % this.members.length]?.take(report.visit);
    for (const watch of this.watchers) watch(member, report);
  }
}
