import { instanceOf } from '../../../lib/core/store/instance-id.js';
import type { ForceReleaseRequest } from '../../../lib/core/store/lock-store.js';
import {
  type LockRow,
  LockTable,
  type LockTableDeps,
  type TableHandoff,
} from '../../../lib/stores/memory/lock-table.js';
import type { VirtualClock } from '../simulation/virtual-clock.js';
import type { ClockSettings } from './machine.js';

/** What a server publishes to one instance: a handoff, or that a key was released by force. */
export type Message = { readonly handoff: TableHandoff; readonly sentAt: number } | { readonly forced: string };

/** A holder, and until when it may count on its lease, on the timeline. */
export interface LeaseEnd {
  readonly key: string;
  readonly owner: string;
  readonly until: number;
}

/** What the server reports to the oracle. */
export interface ServerEvents {
  /** A request has run, or a fault has changed what the server keeps. */
  onChanged(server: Server): void;
  /** A fault or a release by force has ended a lease early. */
  onCutShort(lease: LeaseEnd): void;
  /** The server has forgotten what it did lately. It may grant once more what it grants now. */
  onRolledBack(server: Server): void;
}

/** What the server keeps, at a moment. */
interface Snapshot {
  readonly at: number;
  readonly rows: ReadonlyMap<string, LockRow>;
  readonly lastToken: number;
}

/** What a replica may lag behind at most, in milliseconds. */
export const LONGEST_LAG_MS = 2_000;

/**
 * A server with a clock of its own. It runs the steps of the token store's scripts on the memory store's table, one
 * request at a time. It counts as subscribed who has an open connection for messages, as far as it knows.
 */
export class Server implements LockTableDeps {
  readonly table: LockTable;
  isUp = true;
  /** When its clock was set forward last, on the timeline. */
  setForwardAt = -Infinity;
  /** Whether its clock was ever set back. */
  wasSetBack = false;
  /** Changes with each start: what was on its way to the one before never arrives. */
  generation = 0;
  readonly subscribers = new Map<string, (message: Message) => void>();
  private shiftMs = 0;
  private snapshots: Snapshot[] = [];

  constructor(
    readonly name: string,
    private readonly timeline: VirtualClock,
    private readonly settings: ClockSettings,
    private readonly keepsSnapshots: boolean,
    makeTable: (deps: LockTableDeps) => LockTable,
    private readonly events: ServerEvents,
  ) {
    this.table = makeTable(this);
  }

  /** Milliseconds since 1970 by its clock. */
  now(): number {
    const { rate, offsetMs } = this.settings;
    return this.timeline.wallTime() + this.timeline.now() * (rate - 1) + offsetMs + this.shiftMs;
  }

  wallTime(): number {
    return this.now();
  }

  /** Returns the moment of the timeline at which its clock shows `moment`, if nobody sets it until then. */
  momentOf(moment: number): number {
    return this.timeline.now() + (moment - this.now()) / this.settings.rate;
  }

  isSubscribed(instanceId: string): boolean {
    return this.subscribers.has(instanceId);
  }

  onHandoff(handoff: TableHandoff): void {
    this.subscribers.get(instanceOf(handoff.owner))?.({ handoff, sentAt: this.now() });
  }

  onForced(key: string, owner: string): void {
    this.subscribers.get(instanceOf(owner))?.({ forced: key });
  }

  /** Runs a request. */
  run<T>(request: (server: Server) => T): T {
    const reply = request(this);
    if (this.keepsSnapshots) this.keepSnapshot();
    this.events.onChanged(this);
    return reply;
  }

  /** Ends the holds of a key by force, if they are still those of these owners. */
  forceRelease(request: ForceReleaseRequest, holders: string): boolean {
    if (this.holdersOf(request.key) !== holders) return false;
    let isReleased = false;
    this.cutShort(() => (isReleased = this.table.forceRelease(request)));
    return isReleased;
  }

  /** Returns the owners that hold a key, as one text. */
  holdersOf(key: string): string {
    return this.table
      .living(key)
      .map(({ owner }) => owner)
      .join(' ');
  }

  /** Returns until when the server keeps a lease, on the timeline. -Infinity if it does not. */
  expiryOf(key: string, owner: string): number {
    const holder = this.table.rows.get(key)?.holders.find((each) => each.owner === owner);
    return holder === undefined ? -Infinity : this.momentOf(holder.expiresAt);
  }

  setClock(byMs: number): void {
    this.cutShort(() => (this.shiftMs += byMs));
    if (byMs > 0) this.setForwardAt = this.timeline.now();
    else this.wasSetBack = true;
    this.events.onChanged(this);
  }

  /** The server has stopped. */
  stop(): void {
    this.isUp = false;
    this.generation += 1;
    this.subscribers.clear();
  }

  /** Forgets the last `lostMs` milliseconds, as a replica that is promoted. Infinity: forgets everything. */
  lose(lostMs: number): void {
    const { table } = this;
    const until = this.timeline.now() - lostMs;
    const snapshot = this.snapshots.findLast(({ at }) => at <= until);
    this.cutShort(() => {
      table.rows.clear();
      for (const [key, row] of snapshot?.rows ?? []) table.rows.set(key, copyOf(row));
      table.lastToken = snapshot?.lastToken ?? 0;
    });
    this.snapshots = [];
    if (this.keepsSnapshots) this.keepSnapshot();
    this.events.onRolledBack(this);
    this.events.onChanged(this);
  }

  private cutShort(change: () => void): void {
    const before: LeaseEnd[] = [];
    for (const [key, { holders }] of this.table.rows)
      for (const { owner, expiresAt } of holders) before.push({ key, owner, until: this.momentOf(expiresAt) });
    change();
    for (const lease of before) {
      if (this.expiryOf(lease.key, lease.owner) < lease.until) this.events.onCutShort(lease);
    }
  }

  private keepSnapshot(): void {
    const at = this.timeline.now();
    const rows = new Map([...this.table.rows].map(([key, row]) => [key, copyOf(row)]));
    this.snapshots.push({ at, rows, lastToken: this.table.lastToken });
    while (this.snapshots.length > 1 && this.snapshots[1].at < at - LONGEST_LAG_MS) this.snapshots.shift();
  }
}

function copyOf({ holders, queue }: LockRow): LockRow {
  return { holders: holders.map((holder) => ({ ...holder })), queue: queue.map((entry) => ({ ...entry })) };
}
