import { setTimeout as sleep } from 'node:timers/promises';
import { machineMs, randomFrom } from '../../random.js';
import { eventually } from '../../redis-locks.js';
import { WallClock } from '../../server-clock/wall-clock.js';
import type { Topology } from '../topology/index.js';
import type { OrderOf, Report, StoreName, WorkerTask } from '../workload/orders.js';
import { ioredis5Flags } from './ioredis-5.js';
import { Member } from './member.js';

export type HoldDetails = Omit<OrderOf<'hold'>, 'kind' | 'ms'>;

/** Options of all members. */
export interface FleetOptions {
  /** What their tasks have in common. */
  readonly common: Omit<WorkerTask, 'name' | 'places' | 'thinkMs' | 'seed' | 'file'>;
  /** The folder of their histories. */
  readonly folder: string;
  readonly seed: number;
  /** Gives each member a wall clock that can be set. */
  readonly clocks: boolean;
}

const MEMBERS = 4;
/** Without an order between processes, a caller that returns at once would keep all others out. */
const THINK_MS: Record<StoreName, number> = { token: 8, timestamp: 80, redisson: 80, quorum: 80 };
/** Starting takes a while on a busy machine. */
const START_MS = 60_000;
const STEP_MS = 30_000;
/** On top of a member's shutdown grace. */
const LEAVE_MS = 15_000;

type Fits = (member: Member, report: Report) => boolean;

/** The processes that compete for the lock. */
export class Fleet {
  /** All members, including those that have ended. */
  readonly all: Member[] = [];
  readonly crashes: string[] = [];
  /** Seeded by the run. All choices of a fault use it. */
  readonly random: () => number;
  private joined = 0;
  private passed = 0;
  private readonly watchers = new Set<(member: Member, report: Report) => void>();

  constructor(
    private readonly topology: Topology,
    private readonly options: FleetOptions,
  ) {
    this.random = randomFrom(options.seed);
  }

  get members(): readonly Member[] {
    return this.all.filter(({ alive }) => alive);
  }

  fileOf({ name }: Pick<Member, 'name'>): string {
    return `${this.options.folder}/${name}.jsonl`;
  }

  /** Starts members until there are `count`. */
  async fill(count = MEMBERS): Promise<void> {
    await Promise.all(Array.from({ length: Math.max(0, count - this.members.length) }, () => this.join()));
  }

  /** Starts one more member. */
  async join(): Promise<void> {
    const { common, clocks } = this.options;
    // Drawn before the first await, so that each member has its own.
    const name = `p${(this.joined += 1)}`;
    const seed = Math.floor(this.random() * 2 ** 31);
    const { places, ways } = await this.topology.access();
    const task = { ...common, name, places, thinkMs: THINK_MS[common.store], seed, file: this.fileOf({ name }) };
    const clock = clocks ? await WallClock.create() : undefined;
    const flags = common.client === 'ioredis 5' ? await ioredis5Flags() : [];
    const member = new Member(task, ways, clock, (...args) => this.onReport(...args), flags);
    this.all.push(member);
    await eventually(`${name} is ready`, () => this.crashes.length > 0 || member.instance !== '', START_MS);
  }

  /** Returns all members but these. */
  others(...not: readonly Member[]): readonly Member[] {
    return this.members.filter((member) => !not.includes(member));
  }

  /** Chooses a member other than these. */
  other(...not: readonly Member[]): Member {
    const others = this.others(...not);
    return others[Math.floor(this.random() * others.length)];
  }

  /** Chooses `count` different members, other than these. */
  some(count: number, ...not: readonly Member[]): readonly Member[] {
    const some: Member[] = [];
    while (some.length < count) some.push(this.other(...not, ...some));
    return some;
  }

  /** Makes a member hold the lock for `ms`. Resolves when the hold begins. */
  async longHold(member: Member, ms: number, more: HoldDetails = {}): Promise<void> {
    const held = this.next((by, report) => by === member && report.kind === 'entered' && report.ordered === true);
    member.send({ kind: 'hold', ms, ...more });
    await held;
  }

  /** Does the same while all members rest, so that nobody else holds the lock or waits. They still rest after it. */
  async longHoldAlone(members: readonly Member[], ms: number, more: HoldDetails = {}): Promise<void> {
    await this.rest();
    const held = Promise.all(members.map((member) => this.longHold(member, ms, more)));
    this.go(members, more.reader);
    await held;
  }

  /**
   * Makes members hold the lock for `ms` at the same time. Resolves when all do. Readers enter before any writer waits.
   */
  async longHolds(members: readonly Member[], ms: number, more: HoldDetails = {}): Promise<void> {
    if (more.reader !== true) await Promise.all(members.map((member) => this.longHold(member, ms, more)));
    else {
      await this.longHoldAlone(members, ms, more);
      this.go();
    }
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

  /** Waits until one of these members gets the lock. */
  async entry(by: readonly Member[]): Promise<void> {
    await this.next((member, { kind }) => kind === 'entered' && by.includes(member));
  }

  /**
   * Waits until another member has held the lock exclusively and written: a second such hold begins after the write.
   */
  async written(but: Member): Promise<void> {
    const fits: Fits = (member, report) => report.kind === 'entered' && report.mode === 'exclusive' && member !== but;
    await this.next(fits);
    await this.next(fits);
  }

  /** Waits until all other members wait for the lock. */
  async allWait(...but: readonly Member[]): Promise<void> {
    await eventually('all others wait', () => this.others(...but).every(({ waits }) => waits), STEP_MS);
  }

  /**
   * Waits until each member has had the lock once more, and all requests that wait now have ended. A second ordered
   * hold would otherwise double their wait. Stops waiting after `withinMs`.
   */
  async allEnter(withinMs: number): Promise<void> {
    const missing = new Set(this.members);
    const watch = (member: Member, { kind }: Report): void => {
      if (kind === 'entered') missing.delete(member);
    };
    this.watchers.add(watch);
    const waiting = this.members.map((member) => ({ member, ops: [...member.waiting] }));
    const done = (): boolean =>
      [...missing].every(({ alive }) => !alive) &&
      waiting.every(({ member, ops }) => !member.alive || ops.every((op) => !member.waiting.has(op)));
    await eventually('all members enter', done, withinMs).catch(() => undefined);
    this.watchers.delete(watch);
  }

  /** Makes all members finish, and request nothing until `go`. */
  async rest(members = this.members): Promise<void> {
    for (const member of members) member.send({ kind: 'rest' });
    await eventually('all rest', () => members.every(({ idle }) => idle), STEP_MS);
  }

  /** @param readers only their readers. */
  go(members = this.members, readers = false): void {
    for (const member of members) member.send({ kind: 'go', readers });
  }

  /**
   * Makes all members leave. The last one removes what killed members left. Returns the names of those that did not
   * leave.
   */
  async leave(): Promise<readonly string[]> {
    for (const member of this.members) member.goOn();
    const [last, ...others] = this.members;
    const stayed = await Promise.all(others.map((member) => this.part(member)));
    await this.entry([last]).catch(() => undefined);
    return [...stayed, await this.part(last)].flat();
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

  /** Waits until a matching report arrives. */
  private async next(fits: Fits): Promise<void> {
    let found = false;
    const watch = (member: Member, report: Report): void => {
      found ||= fits(member, report);
    };
    this.watchers.add(watch);
    try {
      await eventually('the expected report arrives', () => found || this.crashes.length > 0, STEP_MS);
    } finally {
      this.watchers.delete(watch);
    }
    if (!found) throw new Error(this.crashes.join('\n'));
  }

  private onReport(member: Member, report: Report): void {
    if (report.kind === 'crash') this.crashes.push(`${member.name}: ${report.error}`);
    // One after another: among them one that is stopped, and one whose connections are cut.
    if (report.kind === 'pass') this.members[(this.passed += 1) % this.members.length]?.take(report.visit);
    for (const watch of this.watchers) watch(member, report);
  }
}
