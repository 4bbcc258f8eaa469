import type { Grant } from '../../../lib/core/lease/grant.js';
import { handoffLease } from '../../../lib/core/lease/lease.js';
import { instanceOf } from '../../../lib/core/store/instance-id.js';
import {
  type Holder,
  type LockRow,
  LockTable,
  type LockTableDeps,
  type PlacedEntry,
  SILENT_MS,
  type TableHandoff,
} from '../../../lib/stores/memory/lock-table.js';
import type { Time } from './model-clock.js';
import type { Leftover, ReplyBody, Request } from './network.js';
import { capture } from './memento.js';
import { Process } from './process.js';
import type { Scenario } from './scenario.js';
import { ageOfPrompt, replyOf, type Exchange, rowOf } from './exchange.js';

/** The state of a run: the server's table, the processes, the messages on their way, and the faults that are left. */
export class World implements LockTableDeps {
  readonly time: Time = { now: 0 };
  readonly processes: Process[] = [];
  readonly table: LockTable;
  leftovers: readonly Leftover[] = [];
  left: { moves: number; losses: number; crashes: number; leaves: number; forces: number };
  /** Owners whose acquire request ran after its connection had ended. Only the request's deadline can prevent that. */
  strays: readonly string[] = [];
  /** The highest token of all holds. */
  lastHeld = 0;
  /** The token of the last exclusive hold. */
  lastExclusive = 0;
  /** What has happened that must not happen. */
  violation: string | undefined;
  private handoffs: TableHandoff[] = [];
  /** The owners whose locks the present request has released by force. */
  private forced: string[] = [];
  /** The server's clock in µs, while it runs a request. */
  private micros = 0;

  constructor(
    readonly scenario: Scenario,
    readonly observe: (exchange: Exchange) => void = () => undefined,
  ) {
    const { moves, losses, crashes, leaves, forces = 0, variant } = scenario;
    this.left = { moves, losses: losses.length > 0 ? 1 : 0, crashes, leaves, forces };
    this.table = variant?.table?.(this) ?? new LockTable(this);
    // Without a last token a grant reserves one token, and nothing is passed on locally.
    this.table.lastToken = 1;
    for (let i = 0; i < scenario.processes; i += 1) {
      this.processes.push(new Process(i, this.time, scenario, (grant) => this.onGranted(grant)));
    }
  }

  now(): number {
    return this.time.now;
  }

  /** Returns how many tokens a grant reserves after the last token of the request before. So tokens are small. */
  wallTime(): number {
    return this.micros / 1000;
  }

  isSubscribed(instanceId: string): boolean {
    return this.processOf(instanceId).line.subscription !== 'closed';
  }

  onHandoff(handoff: TableHandoff): void {
    this.handoffs.push(handoff);
    const { owner, mode, token, tokens, leaseMs, granted } = handoff;
    const process = this.processOf(instanceOf(owner));
    if (process.alive && process.line.subscription === 'open') {
      process.touch();
      process.line.messages.push({ owner, mode, token, tokens, leaseMs, granted, since: this.time.now });
    }
  }

  onForced(_key: string, owner: string): void {
    const process = this.processOf(instanceOf(owner));
    const isNotified = this.forced.some((other) => instanceOf(other) === instanceOf(owner));
    this.forced.push(owner);
    process.touch();
    process.forced = [...process.forced, owner];
    if (!isNotified && process.alive && process.line.subscription === 'open')
      process.line.messages.push({ forced: true });
  }

  get row(): LockRow {
    return rowOf(this.table);
  }

  /** The holders of the key on the server whose lease is not over. */
  get holders(): readonly Holder[] {
    return this.row.holders.filter(({ expiresAt }) => expiresAt > this.time.now);
  }

  /** The key's queue on the server. */
  get queue(): readonly PlacedEntry[] {
    return this.row.queue;
  }

  /** Runs the first request of a process on the server. */
  run({ line }: Process): void {
    const request = line.requests.shift() as Request;
    line.replies.push({ request, body: this.execute(request) });
  }

  /** Somebody releases the lock of its current holders by force. */
  force(): void {
    const [{ owner, mode }] = this.holders;
    const { leaseMs, maxLocalPasses } = this.scenario;
    const body = { owner, mode, tokens: maxLocalPasses + 1, handoffMs: handoffLease(leaseMs) };
    this.execute({ verb: 'forceRelease', body, onReply: () => undefined, sender: undefined });
  }

  /** Runs the first request of a closed connection on the server. The reply is lost. */
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

  /** Moves the time to one of the {@link moments}. */
  moveTo(moment: number): void {
    for (const process of this.processes) process.touch();
    this.time.now = moment;
  }

  /** Records the state. Returns a function that restores it. */
  capture(): () => void {
    const { processes, time, table, leftovers, strays, lastHeld, lastExclusive, violation } = this;
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
      this.lastHeld = lastHeld;
      this.lastExclusive = lastExclusive;
      this.violation = violation;
    };
  }

  reset(process: Process): void {
    this.keep(process, process.reset());
  }

  /** @param noticed whether the server knows it. If not, handoffs to the process are lost. */
  crash(process: Process, noticed: boolean): void {
    this.keep(process, process.crash());
    process.line.subscription = noticed ? 'closed' : 'half-open';
  }

  /** Returns the future moments at which a timer fires or a lease ends on the server. */
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
    this.handoffs = [];
    this.forced = [];
    const { lastToken } = this.table;
    this.micros = lastToken + this.scenario.maxLocalPasses + 1;
    const before = {
      holders: this.holders.map((holder) => ({ ...holder })),
      queue: this.queue.map((entry) => ({ ...entry })),
      lastToken,
    };
    const notified = request.verb === 'forceRelease' ? before.holders : [];
    const owners = [...notified, ...before.queue, request.body].map(({ owner }) => owner);
    const listening = owners.filter((owner) => this.isSubscribed(instanceOf(owner)));
    const reply = replyOf(this.table, request);
    this.checkPlaces(before.queue, request.body.owner);
    this.observe({
      now: this.time.now,
      before,
      listening,
      request,
      reply,
      after: { holders: this.holders, queue: this.queue, lastToken: this.table.lastToken },
      handoffs: this.handoffs,
      forced: this.forced,
    });
    return reply;
  }

  /** Checks that a waiter that receives messages keeps its place, until it is silent after a prompt. */
  private checkPlaces(before: readonly PlacedEntry[], requester: string): void {
    const known = new Set([...this.queue, ...this.handoffs].map(({ owner }) => owner));
    for (const entry of before) {
      const { owner } = entry;
      if (owner === requester || known.has(owner) || !this.isSubscribed(instanceOf(owner))) continue;
      if (ageOfPrompt(entry, this.time.now) !== SILENT_MS) this.violate(`order: ${owner} has lost its place`);
    }
  }

  /** Checks that tokens rise between holds that exclude each other. Shared holds may start in any order. */
  private onGranted({ owner, token = 0, options }: Grant): void {
    // Its grant is over, and its process does not know it yet.
    if (this.processOf(instanceOf(owner)).forced.includes(owner)) return;
    const exclusive = options.mode === 'exclusive';
    const before = exclusive ? this.lastHeld : this.lastExclusive;
    if (token <= before) this.violate(`rising tokens: a hold started with token ${token} after one with ${before}`);
    this.lastHeld = Math.max(this.lastHeld, token);
    if (exclusive) this.lastExclusive = token;
  }

  private processOf(instanceId: string): Process {
    return this.processes.find((process) => process.instanceId === instanceId) as Process;
  }
}
