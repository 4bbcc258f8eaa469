import type { Grant } from '../../lib/core/lease/grant.js';
import { instanceOf } from '../../lib/core/store/lock-store.js';
import type { QueueEntry, Holder, LockRow } from '../../lib/stores/memory/lock-row.js';
import { type TableHandoff, LockTable, type TableWorld } from '../../lib/stores/memory/lock-table.js';
import type { Time } from './model-clock.js';
import type { Leftover, ReplyBody, Request } from './network.js';
import { capture } from './memento.js';
import { Process } from './process.js';
import type { Scenario } from './scenario.js';
import { answerOf, type Exchange, rowOf } from './exchange.js';

/** Everything there is in one state of a run: the server's table, the processes, what is on its way, and what may still go wrong. */
export class World implements TableWorld {
  readonly time: Time = { now: 0 };
  readonly processes: Process[] = [];
  readonly table: LockTable;
  leftovers: readonly Leftover[] = [];
  left: { moves: number; losses: number; crashes: number; leaves: number };
  /** Owners whose ask ran when nobody waited for its answer any more, as only their deadline can prevent. */
  strays: readonly string[] = [];
  /** The highest token of those that have begun. */
  lastBegun = 0;
  /** That of the last hold that shared the lock with nobody. */
  lastAlone = 0;
  /** What must not happen and has. */
  violation: string | undefined;
  private told: TableHandoff[] = [];

  constructor(
    readonly scenario: Scenario,
    readonly observe: (exchange: Exchange) => void = () => undefined,
  ) {
    const { moves, losses, crashes, leaves, variant } = scenario;
    this.left = { moves, losses: losses.length > 0 ? 1 : 0, crashes, leaves };
    this.table = variant?.table?.(this) ?? new LockTable(this);
    for (let i = 0; i < scenario.processes; i += 1) {
      this.processes.push(new Process(i, this.time, scenario, (grant) => this.begun(grant)));
    }
  }

  now(): number {
    return this.time.now;
  }

  /** So that tokens are small: each is the last one's successor. */
  wallTime(): number {
    return 0;
  }

  listens(instanceId: string): boolean {
    return this.processOf(instanceId).line.subscription !== 'closed';
  }

  tell(handedOver: TableHandoff): void {
    this.told.push(handedOver);
    const { owner, mode, token, tokens, leaseMs, granted } = handedOver;
    const process = this.processOf(instanceOf(owner));
    if (process.alive && process.line.subscription === 'open') {
      process.touch();
      process.line.messages.push({ owner, mode, token, tokens, leaseMs, granted, since: this.time.now });
    }
  }

  get row(): LockRow {
    return rowOf(this.table);
  }

  /** Who has the key on the server, and a lease that is not over. */
  get holders(): readonly Holder[] {
    return this.row.holders.filter(({ expiresAt }) => expiresAt > this.time.now);
  }

  /** Who waits for the key on the server. */
  get queue(): readonly QueueEntry[] {
    return this.row.queue;
  }

  /** The server runs the first request of a process. */
  run({ line }: Process): void {
    const request = line.requests.shift() as Request;
    line.replies.push({ request, body: this.execute(request) });
  }

  /** The server runs the first request of a connection that has ended; nobody hears the answer. */
  runLeftover(leftover: Leftover): void {
    const [first, ...others] = leftover.requests;
    this.drop(leftover);
    if (first.verb === 'acquire') this.strays = [...this.strays, first.body.owner];
    if (others.length > 0) this.leftovers = [...this.leftovers, { ...leftover, requests: others }];
    this.execute(first);
  }

  drop(leftover: Leftover): void {
    this.processes[leftover.process].touch();
    this.leftovers = this.leftovers.filter((one) => one !== leftover);
  }

  /** The time moves on, to one of the {@link moments}. */
  moveTo(moment: number): void {
    for (const process of this.processes) process.touch();
    this.time.now = moment;
  }

  /** Notes everything down; answers how to come back to it. */
  capture(): () => void {
    const { processes, time, table, leftovers, strays, lastBegun, lastAlone, violation } = this;
    const left = { ...this.left };
    const { now } = time;
    const undoTable = capture([table.rows]);
    const { lastToken } = table;
    const undos = processes.map((process) => {
      const { goBack = capture(process) } = process.notes;
      process.note({ goBack });
      return { process, goBack, notes: process.notes };
    });
    return () => {
      for (const { process, goBack, notes } of undos) {
        if (process.notes.goBack !== goBack) goBack();
        process.notes = notes;
      }
      undoTable();
      table.lastToken = lastToken;
      time.now = now;
      Object.assign(this.left, left);
      this.leftovers = leftovers;
      this.strays = strays;
      this.lastBegun = lastBegun;
      this.lastAlone = lastAlone;
      this.violation = violation;
    };
  }

  reset(process: Process): void {
    this.keep(process, process.reset());
  }

  /** @param noticed whether the server knows: if not, hand-offs to it are sent to nobody. */
  crash(process: Process, noticed: boolean): void {
    this.keep(process, process.crash());
    process.line.subscription = noticed ? 'closed' : 'half-open';
  }

  /** The moments to come at which something is due: a timer, or the end of the lease on the server. */
  moments(): number[] {
    const { now } = this.time;
    const moments = this.processes.flatMap(({ clock }) => clock.alarms.map(({ at }) => at));
    moments.push(...this.holders.map(({ expiresAt }) => expiresAt));
    const later = moments.filter((at) => at > now && at !== Infinity).toSorted((a, b) => a - b);
    return [...new Set(later)];
  }

  violate(what: string): void {
    this.violation ??= what;
  }

  private keep(process: Process, requests: Request[]): void {
    if (requests.length === 0) return;
    const connection = process.line.connection - 1;
    this.leftovers = [...this.leftovers, { process: this.processes.indexOf(process), connection, requests }];
  }

  private execute(request: Request): ReplyBody {
    this.told = [];
    const { lastToken } = this.table;
    const before = { holders: this.holders.map((holder) => ({ ...holder })), queue: [...this.queue], lastToken };
    const owners = [...before.queue, request.body].map(({ owner }) => owner);
    const listening = owners.filter((owner) => this.listens(instanceOf(owner)));
    const reply = answerOf(this.table, request);
    this.observe({
      now: this.time.now,
      before,
      listening,
      request,
      reply,
      after: { holders: this.holders, queue: this.queue, lastToken: this.table.lastToken },
      told: this.told,
    });
    return reply;
  }

  /** Those who share the lock may begin in any order; only what excludes one another has to rise. */
  private begun({ token = 0, options }: Grant): void {
    const alone = options.mode === 'exclusive';
    const before = alone ? this.lastBegun : this.lastAlone;
    if (token <= before) this.violate(`rising tokens: a hold began with token ${token} after one with ${before}`);
    this.lastBegun = Math.max(this.lastBegun, token);
    if (alone) this.lastAlone = token;
  }

  private processOf(instanceId: string): Process {
    return this.processes.find((process) => process.instanceId === instanceId) as Process;
  }
}
