import { LockUnavailableError } from '../../../lib/core/errors.js';
import { instanceOf } from '../../../lib/core/store/instance-id.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ForceReleaseRequest,
  KeyFilter,
  ReleaseRequest,
  ServerConnection,
  StoreListener,
} from '../../../lib/core/store/lock-store.js';
import { PendingReply } from '../../../lib/core/store/pending-reply.js';
import { atEndOfTick, type Timer } from '../../../lib/core/time/clock.js';
import { ServerTime } from '../../../lib/redis/server-time.js';
import { LongHolds } from '../../../lib/stores/token/handoff/long-holds.js';
import { QueuedOwners, RecentNames } from '../../../lib/stores/token/queued-owners.js';
import { randomFrom } from '../random.js';
import type { Machine } from './machine.js';
import type { Message, Server } from './server.js';

/** How packets travel between one process and the servers. */
export interface Network {
  /** A packet takes between half of this and all of it, in milliseconds. */
  readonly delayMs: number;
  /** Whether packets of one connection may overtake each other, as through a proxy. */
  readonly reorders: boolean;
}

/** What is on the way to the server, or back. */
interface Call<Reply> {
  /** Whether the reply has the server's time. */
  readonly hasTime?: boolean;
  /** Whether only the present connection needs it. */
  readonly isProbe?: boolean;
  run(server: Server): Reply;
  onReply(reply: Reply): void;
  onError(error: Error): void;
}

/** An acquire request that waits for a connection and for the server's time. */
interface Unsent {
  readonly owner: string;
  readonly timer: Timer;
  send(): void;
  cancel(): void;
}

const SLOW_PART = 0.1;
const SLOW_TIMES = 8;
const RETRY_MS = 100;
const REPORT_EVERY_MS = 500;
/** See `HandoffChannels`. */
const LONG_HOLD_MS = 25;

/** What a link reports to the oracle. */
export interface LinkEvents {
  /** A handoff was measured by a clock that has been set forward since. */
  onStaleClock(owner: string, leaseMs: number): void;
  /** A request had an effect after its deadline. */
  onLateRequest(owner: string, lateMs: number): void;
}

/**
 * The connections between one process and one server: one for requests, one for messages. It does what the token store
 * and its client do: it learns the server's time, sends deadlines in that time, joins a queue only if messages arrive,
 * and sends what had no reply once more when a connection is back.
 */
export class Link implements ServerConnection {
  received = 0;
  lostAt = -Infinity;
  /** Nothing travels before this moment of the timeline. */
  stalledUntil = 0;
  /** Whether messages are lost or arrive twice. */
  losesMessages = false;
  /** Whether the server counts a subscriber that receives nothing. */
  isHalfOpen = false;
  private listener: StoreListener | undefined;
  private readonly random: () => number;
  private readonly time = new ServerTime();
  private readonly queued = new QueuedOwners();
  private readonly closed = new RecentNames();
  private readonly longHolds: LongHolds;
  /** Whether the process takes the connection for open, and whether it is. */
  private isReady = true;
  private isOpen = true;
  /** The number of the present connection, and of the one that the process uses, as far as it knows. */
  private connection = 0;
  private used = 0;
  private subscription: 'none' | 'opening' | 'open' = 'none';
  private subscriptions = 0;
  private isAwaited = false;
  private readonly unanswered = new Set<Call<unknown>>();
  private readonly unsent = new Set<Unsent>();
  private resent: Call<unknown>[] = [];
  private isLearning = false;
  private outageTimer: Timer | undefined;
  private readonly busyUntil = { request: 0, reply: 0, message: 0 };

  constructor(
    private readonly machine: Machine,
    private readonly target: Server,
    readonly server: string | undefined,
    private readonly network: Network,
    private readonly requestTimeoutMs: number,
    private readonly concerns: KeyFilter | undefined,
    private readonly events: LinkEvents,
    seed: number,
  ) {
    this.random = randomFrom(seed);
    this.longHolds = new LongHolds(machine, LONG_HOLD_MS, () => this.open());
  }

  listen(listener: StoreListener): void {
    this.listener = listener;
    this.learnTime();
  }

  /** How many requests it keeps. */
  get size(): number {
    return this.unanswered.size + this.unsent.size + this.resent.length;
  }

  probe(): void {
    if (this.isReady) this.learnTime();
  }

  acquire(request: AcquireRequest): PendingReply<AcquireReply> {
    const reply = new PendingReply<AcquireReply>();
    const send = (isRepeated = false): void => {
      const deadline = this.time.serverLowerBound(request.expiresAt) as number;
      if (this.machine.now() >= request.expiresAt) return reply.resolve({ status: 'expired' });
      const queue = request.queue && this.subscription === 'open';
      const { owner, mode, keys } = request;
      if (queue) this.queued.add({ owner, mode, keys: [keys[0]] }, this.machine.now());
      this.write<AcquireReply>({
        hasTime: true,
        run: (server) => {
          const { table } = server;
          const body = { ...request, queue, expiresAt: deadline };
          const found = keys.length > 1 ? table.acquireAll(body) : table.acquire(body);
          const lateMs = this.machine.now() - request.expiresAt;
          const hasEffect = found.status === 'granted' || (found.status === 'held' && found.queued);
          if (lateMs > 0 && hasEffect && !server.wasSetBack) this.events.onLateRequest(owner, lateMs);
          if (found.status !== 'held') return found;
          const holders = table.living(found.key ?? keys[0]);
          if (holders.length === 0) return found;
          return { ...found, holder: { instanceId: instanceOf(holders[0].owner), count: holders.length } };
        },
        onReply: (found) => {
          // The server's clock may have been set forward. The reply has corrected it.
          if (found.status === 'expired' && !isRepeated) return send(true);
          if (found.status === 'granted') {
            this.queued.onGranted(owner);
            if (this.subscription !== 'open') this.longHolds.onGranted(owner, keys[0]);
          }
          if (found.status === 'held' && request.queue) {
            this.isAwaited = true;
            this.open();
          }
          reply.resolve(found);
        },
        onError: (cause) => reply.reject(failed('an acquire request', cause)),
      });
    };
    if (this.isReady && this.time.known) send();
    else this.sendLater(request, send, () => reply.resolve({ status: 'expired' }));
    return reply;
  }

  release(request: ReleaseRequest): PromiseLike<boolean> {
    const { owner, closedForMs } = request;
    if (closedForMs > 0) this.closed.add(owner, this.machine.now(), closedForMs);
    this.longHolds.onReleased(owner);
    let wasUnsent = false;
    for (const each of this.unsent) {
      if (each.owner !== owner) continue;
      each.cancel();
      wasUnsent = true;
    }
    if (wasUnsent && !this.queued.has(owner)) return Promise.resolve(false);
    const reply = new PendingReply<boolean>();
    this.write({
      run: ({ table }) => table.release(request),
      onReply: (wasHeld) => {
        this.queued.delete(owner);
        reply.resolve(wasHeld);
      },
      onError: (cause) => reply.reject(failed('a release', cause)),
    });
    return reply;
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    return new Promise((resolve) => {
      this.write({
        run: ({ table }) => requests.map((request) => table.extend(request)),
        onReply: resolve,
        onError: (cause) => {
          for (const { keys } of requests) this.listener?.onExtendFailed?.(keys[0], failed('a renewal', cause));
          resolve(requests.map(() => 'unknown'));
        },
      });
    });
  }

  /** Reads the holders first, and then ends exactly these, as the token store does. */
  forceRelease(request: ForceReleaseRequest): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const onError = (cause: Error): void => reject(failed('a release by force', cause));
      const end = (holders: string): void => {
        const run = (server: Server): boolean => server.forceRelease(request, holders);
        if (holders === '') resolve(false);
        else this.write({ run, onReply: resolve, onError });
      };
      this.write({ run: (server) => server.holdersOf(request.key), onReply: end, onError });
    });
  }

  inspect(): Promise<null> {
    return new Promise((resolve, reject) => {
      const onError = (cause: Error): void => reject(failed('an inspection', cause));
      this.write({ run: () => null, onReply: resolve, onError });
    });
  }

  close(): void {
    this.listener = undefined;
    this.longHolds.clear();
    this.outageTimer?.cancel();
    this.unsubscribe();
  }

  // Faults.

  /** Ends both connections. The process connects again after `forMs`, if the server runs by then. */
  cut(forMs: number): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.connection += 1;
    this.unsubscribe();
    this.machine.post(() => this.onClosed());
    this.machine.timeline.schedule(forMs, () => this.reconnect());
  }

  /** Ends the connection for messages. The process opens it again after `forMs`. */
  cutSubscription(forMs: number): void {
    if (this.subscription === 'none') return;
    this.unsubscribe();
    this.machine.timeline.schedule(forMs, () => this.machine.post(() => this.open()));
  }

  /** Sends what somebody who knows no secret can: a false notice. It grants and ends nothing. */
  forge(key: string, kind: 'handoff' | 'forced'): void {
    this.machine.post(() => {
      if (kind === 'handoff') this.listener?.onReleased(key);
      else this.listener?.onForceReleased?.(key);
    });
  }

  /** The process has crashed. The server learns of it after a while. */
  abandon(noticedAfterMs: number): void {
    this.isOpen = false;
    this.connection += 1;
    this.machine.timeline.schedule(noticedAfterMs, () => this.unsubscribe());
  }

  // The connection for requests.

  private write<Reply>(call: Call<Reply>): void {
    if (!this.isReady) return void queueMicrotask(() => call.onError(new Error('there is no connection')));
    const { used: connection, target, machine } = this;
    const { generation } = target;
    this.unanswered.add(call);
    // The process has not noticed yet that the connection has ended.
    if (!this.isOpen || connection !== this.connection) return;
    const sentAt = machine.now();
    const arrive = (): void => {
      const isLeftover = connection !== this.connection && this.random() < 0.5;
      if (!target.isUp || target.generation !== generation || isLeftover) return;
      const reply = target.run((server) => call.run(server));
      const serverMs = target.now();
      const read = (): void => {
        if (connection !== this.connection) return;
        this.unanswered.delete(call);
        this.received += 1;
        if (call.hasTime === true) {
          this.time.learn(serverMs, sentAt, machine.now());
          this.listener?.onReachable(this.server);
        }
        call.onReply(reply);
      };
      this.travel('reply', () => machine.post(read));
    };
    this.travel('request', arrive);
  }

  private travel(way: 'request' | 'reply' | 'message', arrive: () => void): void {
    const { timeline } = this.machine;
    const { delayMs, reorders } = this.network;
    // Where packets overtake each other, a few are much slower than the others.
    const times = reorders && this.random() < SLOW_PART ? SLOW_TIMES : 1;
    const at = Math.max(timeline.now(), this.stalledUntil) + ((delayMs * (1 + this.random())) / 2) * times;
    const orderly = reorders ? at : Math.max(at, this.busyUntil[way]);
    this.busyUntil[way] = orderly;
    timeline.schedule(orderly - timeline.now(), arrive);
  }

  private sendLater({ owner, expiresAt }: AcquireRequest, send: () => void, expire: () => void): void {
    const end = (then: () => void): void => {
      if (!this.unsent.delete(entry)) return;
      entry.timer.cancel();
      then();
    };
    const timer = this.machine.schedule(expiresAt - this.machine.now(), () => end(expire));
    const entry: Unsent = { owner, timer, send: () => end(send), cancel: () => end(expire) };
    this.unsent.add(entry);
    if (this.isReady) this.learnTime();
  }

  private learnTime(): void {
    if (this.isLearning) return;
    this.isLearning = true;
    this.write({
      hasTime: true,
      isProbe: true,
      run: () => undefined,
      onReply: () => {
        this.isLearning = false;
        this.outageTimer?.cancel();
        for (const each of this.unsent) each.send();
      },
      onError: () => void (this.isLearning = false),
    });
  }

  private onClosed(): void {
    this.isReady = false;
    this.isLearning = false;
    this.lostAt = this.machine.now();
    this.time.forget();
    const calls = [...this.unanswered];
    this.unanswered.clear();
    this.outageTimer?.cancel();
    this.outageTimer = this.machine.schedule(this.requestTimeoutMs, () => this.report());
    this.listener?.onDisconnected(this.concerns);
    for (const call of calls) {
      // Some clients send it again when the connection is back.
      if (call.isProbe !== true && this.random() < 0.5) this.resent.push(call);
      else call.onError(new Error('the connection has ended'));
    }
  }

  private report(): void {
    this.listener?.onUnreachable(new Error('connect ECONNREFUSED'), this.server);
    this.outageTimer = this.machine.schedule(REPORT_EVERY_MS, () => this.report());
  }

  private reconnect(): void {
    const { machine, target } = this;
    if (!machine.alive || this.isOpen) return;
    if (!target.isUp || this.stalledUntil > machine.timeline.now()) {
      if (!target.isUp)
        machine.post(() => this.listener?.onUnreachable(new Error('connect ECONNREFUSED'), this.server));
      machine.timeline.schedule(RETRY_MS * (1 + this.random()), () => this.reconnect());
      return;
    }
    this.isOpen = true;
    const { connection } = this;
    machine.post(() => this.onReady(connection));
  }

  private onReady(connection: number): void {
    this.used = connection;
    this.isReady = true;
    this.learnTime();
    this.listener?.onReconnected(this.concerns);
    const calls = this.resent;
    this.resent = [];
    for (const call of calls) this.write(call);
    if (this.isAwaited) this.open();
  }

  // The connection for messages.

  private open(): void {
    if (this.subscription !== 'none' || !this.isReady || this.listener === undefined) return;
    this.subscription = 'opening';
    this.subscriptions += 1;
    const nth = this.subscriptions;
    const { target, machine, listener } = this;
    this.travel('request', () => {
      if (nth !== this.subscriptions || !this.isOpen || !target.isUp || !machine.alive) return;
      target.subscribers.set(listener.instanceId, (message) => this.carry(message, nth));
      this.travel('message', () =>
        machine.post(() => {
          if (nth !== this.subscriptions) return;
          this.subscription = 'open';
          atEndOfTick(() => this.listener?.onSubscribed(this.concerns));
        }),
      );
    });
  }

  private unsubscribe(): void {
    this.subscription = 'none';
    this.subscriptions += 1;
    if (this.listener !== undefined) this.target.subscribers.delete(this.listener.instanceId);
  }

  /** When the reading of the server's clock was taken that is used now, on the timeline. */
  private get readAt(): number {
    const { reading } = this.time as unknown as { readonly reading?: { readonly receivedAt: number } };
    return reading === undefined ? Infinity : this.machine.momentOf(reading.receivedAt);
  }

  private carry(message: Message, nth: number): void {
    const lot = this.losesMessages ? this.random() : 1;
    if (this.isHalfOpen || lot < 0.4) return;
    const arrive = (): void => {
      if (nth === this.subscriptions) this.onMessage(message);
    };
    this.travel('message', () => this.machine.post(arrive));
    if (lot < 0.7) this.travel('message', () => this.machine.post(arrive));
  }

  /** Does what the token store does with a message. */
  private onMessage(message: Message): void {
    const now = this.machine.now();
    if ('forced' in message) return this.listener?.onForceReleased?.(message.forced);
    const { handoff, sentAt } = message;
    const { key, owner, mode, leaseMs } = handoff;
    if (this.closed.has(owner, now)) return;
    const isQueued = this.queued.has(owner);
    if (!handoff.granted) return isQueued ? this.listener?.onReleased(key) : undefined;
    const grantedAt = this.time.localLowerBound(sentAt);
    if (!isQueued && now > (grantedAt ?? Infinity) + leaseMs) return;
    if (isQueued) this.longHolds.onGranted(owner, key);
    if (this.readAt < this.target.setForwardAt) this.events.onStaleClock(owner, leaseMs);
    const { token, tokens } = handoff;
    this.listener?.onHandoff({ keys: [key], owner, mode, token, tokens, leaseMs, grantedAt });
  }
}

function failed(what: string, cause: Error): LockUnavailableError {
  return new LockUnavailableError(`The store sent no reply to ${what}: ${cause.message}`, { cause });
}
