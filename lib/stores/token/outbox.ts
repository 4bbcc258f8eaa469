import { runOutside } from '../../common/async-context.js';
import type { ReplyListener } from '../../contract/reply-listener.js';
import { afterPromiseJobs, atNextTick, type Clock, type Timer } from '../../clock/clock.js';
import type { LimitedRequest, LimitRequest } from '../../clock/timeout-pool.js';
import type { RedisConnection } from '../../redis/redis-connection.js';
import { isCrossSlot, isErrorReply, refusesEverything } from '../../redis/redis-errors.js';
import { redirectionIn } from '../../redis/redirection.js';
import type { RedisScript } from '../../redis/redis-script.js';
import type { NodeRequest, RedisNode, Topology } from '../../redis/topology.js';
import { type KeyFilter, UnansweredError } from '../../contract/store.js';
import type { LockNames } from './lock-names.js';

/** Redis runs one script at a time: 64 locks take about a third of a millisecond if they are free. */
const MAX_LOCKS = 64;

/** How long the requests of a group are sent alone after the server has refused several in one call. */
const ALONE_MS = 5_000;

/** The kinds of requests in the order in which they leave: what is released can be acquired in the same tick. */
const KINDS = ['release', 'extend', 'acquire'] as const;

/** What a request does. A transfer is sent alone. */
export type Kind = (typeof KINDS)[number] | 'transfer';

/** What one lock needs. Those of one tick travel together. */
export interface LockRequest {
  readonly key: string;
  /** The lease of a handoff. The same for all locks of a call. */
  readonly handoffMs: number;
  /** What a script repeats for each lock. */
  readonly args: readonly string[];
  /** Called once, never before the sender has returned. */
  readonly done: (error: unknown, reply: unknown) => void;
}

/** A script for one lock, and the same for several. Both return what Redis replied. */
export interface LockScripts {
  readonly one: RedisScript<unknown>;
  /** Undefined if its requests are sent alone. */
  readonly many?: RedisScript<unknown>;
  /** Returns the keys and the common arguments of a call for these requests, which are of one group. */
  readonly head: (requests: readonly LockRequest[]) => { readonly keys: string[]; readonly args: string[] };
}

/** What an outbox needs. */
export interface OutboxDeps {
  readonly topology: Topology;
  readonly names: LockNames;
  readonly clock: Clock;
  readonly requestTimeoutMs: number;
  readonly limitRequest: LimitRequest;
  readonly scripts: Readonly<Record<Kind, LockScripts>>;
  /** Called if nothing was read from the key's server for the time limit, although a request was on its way. */
  readonly onSilent: (key: string, why: string) => void;
}

/**
 * The door through which requests for locks leave: those of one tick in one packet for each server, and in one script
 * call for each group of keys. A call ends by its reply, by its error, by the end of its connection, or when its server
 * has been silent for the time limit.
 */
export class Outbox {
  private waiting: Record<(typeof KINDS)[number], LockRequest[]> = { release: [], extend: [], acquire: [] };
  private isDue = false;
  /** Until when the requests of each group are sent alone. */
  private readonly aloneUntil = new Map<string, number>();
  private readonly pending = new Set<ScriptCall>();
  /** The connections that hold back the calls of a flush. Undefined while each call leaves at once. */
  private corked: Set<RedisConnection> | undefined;

  constructor(readonly deps: OutboxDeps) {}

  /** Sends a request at the end of the tick. */
  add(kind: (typeof KINDS)[number], request: LockRequest): void {
    const requests = this.waiting[kind];
    requests.push(request);
    if (!this.isDue) {
      this.isDue = true;
      atNextTick(this.onDue);
    }
    // Redis begins with them while further requests are made.
    if (requests.length >= MAX_LOCKS && !this.deps.names.isCluster) this.flush();
  }

  /** Sends a request now, in a call of its own behind what waits. */
  addAlone(kind: Kind, request: LockRequest): void {
    this.flush();
    runOutside(() => this.send([new ScriptCall(this, kind, [request])]));
  }

  /** Sends what waits, before any other code runs. */
  flush(): void {
    const { waiting } = this;
    if (KINDS.every((kind) => waiting[kind].length === 0)) return;
    this.waiting = { release: [], extend: [], acquire: [] };
    // A call serves several callers.
    runOutside(() => this.send(KINDS.flatMap((kind) => this.callsOf(kind, waiting[kind]))));
  }

  /** Ends the calls that were sent over a connection that has ended. */
  onDisconnected(concerns: KeyFilter = () => true): void {
    const cut = [...this.pending].filter(({ key }) => concerns(key));
    for (const call of cut) call.onCut();
  }

  private readonly onDue = (): void => {
    this.isDue = false;
    this.flush();
  };

  private send(calls: readonly ScriptCall[]): void {
    const corked = new Set<RedisConnection>();
    if (calls.length > 1) this.corked = corked;
    for (const call of calls) call.start();
    this.corked = undefined;
    for (const connection of corked) connection.uncork();
  }

  /** Splits requests into those of one call each. */
  private callsOf(kind: Kind, requests: readonly LockRequest[]): readonly ScriptCall[] {
    if (requests.length === 0) return [];
    if (requests.length === 1) return [new ScriptCall(this, kind, requests)];
    const { names } = this.deps;
    // While a cluster moves a slot, it puts off scripts with several keys. Leases are renewed meanwhile.
    const isAlone = kind === 'extend' && names.isCluster;
    const calls: LockRequest[][] = [];
    const open = new Map<string, LockRequest[]>();
    for (const request of requests) {
      const group = isAlone ? undefined : names.scriptGroupOf(request.key);
      const call = group === undefined || this.goesAlone(group) ? undefined : open.get(group);
      if (call !== undefined && call.length < MAX_LOCKS && call[0].handoffMs === request.handoffMs) {
        call.push(request);
        continue;
      }
      const next = [request];
      if (group !== undefined) open.set(group, next);
      calls.push(next);
    }
    return calls.map((call) => new ScriptCall(this, kind, call));
  }

  private goesAlone(group: string): boolean {
    if (this.aloneUntil.size === 0) return false;
    const until = this.aloneUntil.get(group);
    if (until === undefined) return false;
    if (this.deps.clock.now() < until) return true;
    this.aloneUntil.delete(group);
    return false;
  }

  /** @internal */
  onStarted(call: ScriptCall): void {
    this.pending.add(call);
  }

  /** @internal */
  onOver(call: ScriptCall): void {
    this.pending.delete(call);
  }

  /** Holds back the calls of a flush, so that the server reads them together. @internal */
  collect(connection: RedisConnection): void {
    if (this.corked === undefined) return;
    this.corked.add(connection);
    connection.cork();
  }

  /** Sends the requests of a call again, each in a call of its own or by groups. @internal */
  divide({ kind, requests }: ScriptCall, isRefused: boolean): void {
    const { names, clock } = this.deps;
    if (isRefused) this.aloneUntil.set(names.scriptGroupOf(requests[0].key), clock.now() + ALONE_MS);
    runOutside(() => this.send(this.callsOf(kind, requests)));
  }
}

/** A script call for the locks of one group. */
class ScriptCall implements NodeRequest<unknown>, LimitedRequest {
  private timer: Timer | undefined = undefined;
  private isSent = false;
  private isOver = false;
  /** Whether its locks are known to be in one slot. */
  private readonly isSlotted: boolean;

  constructor(
    private readonly outbox: Outbox,
    readonly kind: Kind,
    readonly requests: readonly LockRequest[],
  ) {
    this.isSlotted = outbox.deps.names.isSlotted;
  }

  get key(): string {
    return this.requests[0].key;
  }

  start(): void {
    const { topology, clock, limitRequest } = this.outbox.deps;
    this.timer = limitRequest(this.key, this, clock.now());
    this.outbox.onStarted(this);
    try {
      topology.request(this.key, this);
    } catch (error) {
      afterPromiseJobs(() => this.onFailed(error));
    }
  }

  send(node: RedisNode, listener: ReplyListener<unknown>): void {
    // Nobody waits for it now. The owner may have been released.
    if (this.isOver) return afterPromiseJobs(() => listener.onFailed(noConnection()));
    if (node.failsFast) this.run(node, listener);
    else if (this.kind === 'acquire') this.runLater(node, listener);
    // In the client's queue, releases would pile up during an outage. The engine repeats them instead.
    else afterPromiseJobs(() => listener.onFailed(noConnection()));
  }

  onReply(reply: unknown): void {
    if (this.isOver) return;
    this.end();
    const { requests } = this;
    const each = requests.length > 1 && Array.isArray(reply) ? (reply as readonly unknown[]) : undefined;
    requests.forEach((request, i) => {
      const own = each === undefined ? reply : each[i];
      if (own instanceof Error) tell(request, own, undefined);
      else tell(request, undefined, own);
    });
  }

  onFailed(error: unknown): void {
    if (this.isOver) return;
    this.end();
    if (!this.isSlotted && this.outbox.deps.names.learnsSlots(error)) return this.outbox.divide(this, false);
    if (this.requests.length > 1 && refusesSeveral(error)) return this.outbox.divide(this, true);
    for (const request of this.requests) tell(request, error, undefined);
  }

  onTimeout(): void {
    const { requestTimeoutMs, onSilent } = this.outbox.deps;
    const why = `no reply within ${requestTimeoutMs} ms`;
    const { isSent } = this;
    this.onFailed(new UnansweredError(why));
    // A connection that is not there is reported by itself, and with a reason.
    if (isSent) onSilent(this.key, why);
  }

  onCut(): void {
    if (this.isSent) this.onFailed(new UnansweredError('the connection ended before the reply'));
  }

  /** Waits for the connection. Requests in the client's queue would run when nobody wants them. */
  private runLater(node: RedisNode, listener: ReplyListener<unknown>): void {
    const { clock, requestTimeoutMs } = this.outbox.deps;
    const { connection } = node;
    // Longer than this call may take.
    void connection.reached(clock.now() + 2 * requestTimeoutMs).then(
      // A reply came, although a client may not call its connection ready yet.
      () => (this.isOver ? listener.onFailed(noConnection()) : this.run(node, listener)),
      (error: unknown) => listener.onFailed(error),
    );
  }

  private run(node: RedisNode, listener: ReplyListener<unknown>): void {
    const { requests, outbox, kind } = this;
    this.isSent = true;
    const { head, one, many } = outbox.deps.scripts[kind];
    const { keys, args } = head(requests);
    for (const request of requests) args.push(...request.args);
    outbox.collect(node.connection);
    const script = requests.length === 1 ? one : (many ?? one);
    script.runThen(node.connection, keys, args, listener);
  }

  private end(): void {
    this.isOver = true;
    this.timer?.cancel();
    this.outbox.onOver(this);
  }
}

/** Ends a request. An error in the code that it calls must not keep the other requests of the call from their ends. */
function tell({ done }: LockRequest, error: unknown, reply: unknown): void {
  try {
    done(error, reply);
  } catch (unexpected) {
    afterPromiseJobs(() => {
      throw unexpected;
    });
  }
}

/** Returns whether a server or a proxy may have refused a call because it names several locks. */
function refusesSeveral(error: unknown): boolean {
  return isErrorReply(error) && redirectionIn(error) === undefined && !isCrossSlot(error) && !refusesEverything(error);
}

function noConnection(): Error {
  return new Error('there is no connection');
}
