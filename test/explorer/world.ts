import { instanceOf } from '../../lib/core/lock-store.js';
import {
  type HandedOver,
  type Holder,
  type LockRow,
  LockTable,
  type TableWorld,
} from '../../lib/stores/memory/lock-table.js';
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
  /** The token of the hold that began last. */
  lastBegun = 0;
  /** What must not happen and has. */
  violation: string | undefined;
  private told: HandedOver[] = [];

  constructor(
    readonly scenario: Scenario,
    readonly observe: (exchange: Exchange) => void = () => undefined,
  ) {
    const { moves, losses, crashes, leaves, variant } = scenario;
    this.left = { moves, losses: losses.length > 0 ? 1 : 0, crashes, leaves };
    this.table = variant?.table?.(this) ?? new LockTable(this);
    for (let i = 0; i < scenario.processes; i += 1) {
      this.processes.push(new Process(`p${i + 1}`, this.time, scenario, (token) => this.begun(token)));
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
    return this.processOf(instanceId).line.subscription !== 'gone';
  }

  tell(handedOver: HandedOver): void {
    this.told.push(handedOver);
    const { owner, token, tokens, leaseMs } = handedOver;
    const process = this.processOf(instanceOf(owner));
    if (process.alive && process.line.subscription === 'heard') {
      process.touch();
      process.line.messages.push({ owner, token, tokens, leaseMs, since: this.time.now });
    }
  }

  get row(): LockRow {
    return rowOf(this.table);
  }

  /** Who has the key on the server, if its lease is not over. */
  get holder(): Holder | undefined {
    const { holder } = this.row;
    return holder !== undefined && holder.expiresAt > this.time.now ? holder : undefined;
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
    if (first.verb === 'ask') this.strays = [...this.strays, first.body.owner];
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
    const { processes, time, table, leftovers, strays, lastBegun, violation } = this;
    const left = { ...this.left };
    const { now } = time;
    const undoTable = capture([Reflect.get(table, 'rows') as object]);
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
      this.violation = violation;
    };
  }

  reset(process: Process): void {
    this.keep(process, process.reset());
  }

  /** @param noticed whether the server knows: if not, hand-offs to it are sent to nobody. */
  crash(process: Process, noticed: boolean): void {
    this.keep(process, process.crash());
    process.line.subscription = noticed ? 'gone' : 'deaf';
  }

  /** The moments to come at which something is due: a timer, or the end of the lease on the server. */
  moments(): number[] {
    const { now } = this.time;
    const moments = this.processes.flatMap(({ clock }) => clock.alarms.map(({ at }) => at));
    if (this.holder !== undefined) moments.push(this.holder.expiresAt);
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
    const before = { row: this.row, lastToken: this.table.lastToken };
    const holder = this.holder && { ...this.holder };
    const queue = [...before.row.queue];
    const listening = queue.filter((owner) => this.listens(instanceOf(owner)));
    const reply = answerOf(this.table, request);
    this.observe({
      now: this.time.now,
      before: { holder, queue, lastToken: before.lastToken },
      listening,
      request,
      reply,
      after: { holder: this.holder, queue: this.row.queue, lastToken: this.table.lastToken },
      told: this.told,
    });
    return reply;
  }

  private begun(token: number | undefined): void {
    if (token === undefined || token <= this.lastBegun) {
      this.violate(`rising tokens: a hold began with token ${token} after one with ${this.lastBegun}`);
    } else this.lastBegun = token;
  }

  private processOf(instanceId: string): Process {
    return this.processes.find((process) => process.instanceId === instanceId) as Process;
  }
}
