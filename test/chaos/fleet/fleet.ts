import { randomFrom } from '../../support/random.js';
import { eventually } from '../../support/redis-locks.js';
import type { DefenceName } from '../ablations.js';
import type { Topology } from '../topology/index.js';
import { placesOf, type WorkloadName } from '../workload/kinds.js';
import type { LockTerms, Order, Report, StoreName } from '../workload/orders.js';
import { Member } from './member.js';

export type HoldDetails = Omit<Extract<Order, { kind: 'hold' }>, 'kind' | 'ms'>;

/** What all members have in common. */
export interface FleetOptions {
  readonly store: StoreName;
  readonly workload: WorkloadName;
  readonly resource: string;
  readonly terms: LockTerms;
  readonly off: DefenceName | undefined;
  /** Where their histories go. */
  readonly folder: string;
  readonly seed: number;
  /** Their wall clocks can be set. */
  readonly clocks: boolean;
}

const MEMBERS = 4;
/** Where there is no order between processes, one that comes back at once would keep all others out. */
const THINK_MS: Record<StoreName, number> = { token: 8, timestamp: 80, redisson: 80, quorum: 80 };
/** Starting takes a while on a machine that has other things to do. */
const START_MS = 60_000;
const STEP_MS = 30_000;
/** Beside the grace that a member has for what it holds. */
const LEAVE_MS = 15_000;

/** The processes that contend for the lock. */
export class Fleet {
  /** Those that were ever started. */
  readonly all: Member[] = [];
  readonly crashes: string[] = [];
  private joined = 0;
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

  /** How many places in the queue they have, when all callers wait. */
  get places(): number {
    return this.members.length * placesOf(this.options.workload);
  }

  fileOf(member: Member): string {
    return `${this.options.folder}/${member.name}.jsonl`;
  }

  /** One more. */
  async join(): Promise<Member> {
    const { store, workload, resource, terms, off, folder, clocks } = this.options;
    // Before anything is waited for, so that each has its own.
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
      thinkMs: THINK_MS[store],
      seed,
      off,
      file: `${folder}/${name}.jsonl`,
    };
    const member = await Member.start(task, ways, clocks, (...heard) => this.hear(...heard));
    this.all.push(member);
    await eventually(`${name} is ready`, () => this.crashes.length > 0 || member.instance !== '', START_MS);
    return member;
  }

  /** Somebody but these. */
  other(random: () => number, ...not: readonly Member[]): Member {
    const others = this.members.filter((member) => !not.includes(member));
    return others[Math.floor(random() * others.length)];
  }

  /** So many, no two alike. */
  some(count: number, random: () => number): readonly Member[] {
    const some: Member[] = [];
    while (some.length < count) some.push(this.other(random, ...some));
    return some;
  }

  /** Lets a member hold the lock for that long; answers as soon as it does. */
  async longHold(member: Member, ms: number, more: HoldDetails = {}): Promise<void> {
    const held = this.next((who, report) => who === member && report.kind === 'entered' && report.ordered === true);
    member.tell({ kind: 'hold', ms, ...more });
    await held;
  }

  /** Lets several hold the lock for that long at the same time; answers when they do. Readers come before any writer waits. */
  async longHolds(members: readonly Member[], ms: number, more: HoldDetails = {}): Promise<void> {
    const { reader = false } = more;
    if (reader) await this.rest();
    const held = Promise.all(members.map((member) => this.longHold(member, ms, more)));
    if (reader) this.go(members, true);
    await held;
    if (reader) this.go();
  }

  /** Waits until a member's long hold looks at its lock no more. */
  async looked(member: Member): Promise<void> {
    await eventually('it has looked at its lock', () => member.looked, STEP_MS);
  }

  /** Waits until a long hold that is under way is over. */
  async longHoldsEnd(): Promise<void> {
    await eventually('long holds end', () => this.members.every(({ busy }) => !busy), STEP_MS);
  }

  /** Waits until somebody that fits gets the lock. */
  async entry(fits: (member: Member) => boolean = () => true): Promise<Member> {
    return this.next((member, report) => report.kind === 'entered' && fits(member));
  }

  /** Waits until somebody else has had the lock alone, and written: the next one gets it behind that. */
  async written(but: Member): Promise<void> {
    const fits = (member: Member, report: Report): boolean =>
      report.kind === 'entered' && report.mode === 'exclusive' && member !== but;
    await this.next(fits);
    await this.next(fits);
  }

  /** Waits until all but these wait for the lock. */
  async allWait(...but: readonly Member[]): Promise<void> {
    const waiting = (): boolean => this.members.every((member) => but.includes(member) || member.waits);
    await eventually('all others wait', waiting, STEP_MS);
  }

  /**
   * Waits until everybody who is there has had the lock once more, and nobody waits any longer who does now: a second hold
   * that is ordered would double their wait. False if that takes longer than it may.
   */
  async everybodyEnters(withinMs: number): Promise<boolean> {
    const missing = new Set(this.members);
    const watch = (member: Member, report: Report): void => {
      if (report.kind === 'entered') missing.delete(member);
    };
    this.watchers.add(watch);
    const waiting = this.members.map((member) => ({ member, ops: member.waitingOps }));
    const done = (): boolean =>
      [...missing].every(({ alive }) => !alive) &&
      waiting.every(({ member, ops }) => !member.alive || ops.every((op) => !member.waitsWith(op)));
    const entered = await eventually('everybody enters', done, withinMs).then(
      () => true,
      () => false,
    );
    this.watchers.delete(watch);
    return entered;
  }

  /** Everybody finishes, and asks no more until `go`. */
  async rest(): Promise<void> {
    for (const member of this.members) member.tell({ kind: 'rest' });
    await eventually('all rest', () => this.members.every(({ idle }) => idle), STEP_MS);
  }

  /** @param readers only those. */
  go(members: readonly Member[] = this.members, readers = false): void {
    for (const member of members) member.tell({ kind: 'go', readers });
  }

  /** All leave, one after the others, so that the last one clears up behind the dead; answers who did not. */
  async leave(): Promise<readonly string[]> {
    for (const member of this.members) member.goOn();
    const [last, ...others] = this.members;
    const stayed = (await Promise.all(others.map((member) => this.part(member)))).flat();
    await this.entry((member) => member === last).catch(() => undefined);
    return [...stayed, ...(await this.part(last))];
  }

  /** Whatever they are doing. */
  async end(): Promise<void> {
    await Promise.all(this.members.map((member) => member.kill()));
  }

  private async part(member: Member): Promise<readonly string[]> {
    member.tell({ kind: 'leave' });
    const timeout = new AbortController();
    const late = new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(true), LEAVE_MS);
      timeout.signal.addEventListener('abort', () => clearTimeout(timer));
    });
    const stayed = await Promise.race([member.exited.then(() => false), late]);
    timeout.abort();
    return stayed ? [member.name] : [];
  }

  private async next(fits: (member: Member, report: Report) => boolean): Promise<Member> {
    let found: Member | undefined;
    const watch = (member: Member, report: Report): void => {
      if (fits(member, report)) found ??= member;
    };
    this.watchers.add(watch);
    try {
      await eventually('what is waited for happens', () => found !== undefined || this.crashes.length > 0, STEP_MS);
    } finally {
      this.watchers.delete(watch);
    }
    if (found === undefined) throw new Error(this.crashes.join('\n'));
    return found;
  }

  private hear(member: Member, report: Report): void {
    if (report.kind === 'crash') this.crashes.push(`${member.name}: ${report.error}`);
    for (const watch of this.watchers) watch(member, report);
  }
}
