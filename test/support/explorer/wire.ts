import { answer, type ReplyListener } from '../../../lib/contract/reply-listener.js';
import { asked } from '../asked.js';
import type { MemoryStore } from '../../../lib/stores/memory/memory.store.js';
import type { Clock } from '../../../lib/clock/clock.js';
import { LockUnavailableError } from '../../../lib/common/errors.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type ExtendReply,
  type ExtendRequest,
  type ForceReleaseRequest,
  type LockMode,
  type LockState,
  type LockStore,
  type ReleaseRequest,
  type StoreListener,
  type StorePing,
  type TransferReply,
  type TransferRequest,
  UnansweredError,
} from '../../../lib/contract/store.js';
import { NO_FAULTS, type Faults } from './conditions.js';
import type { ProcessClock } from './instance.js';
import type { Referee } from './referee.js';

type Wake = Parameters<StoreListener['onWake']>;

/**
 * What happens on a wire, for a recorder. `flight` identifies a request, or the requests that travel together. A
 * connection has a number. `late`: what arrives although its connection has ended.
 */
export type WireEvent =
  | { readonly what: 'sends'; readonly flight: object; readonly verb: string; readonly requests: readonly Sent[] }
  | { readonly what: 'refuses' | 'reads' | 'fails' | 'resends'; readonly flight: object }
  | { readonly what: 'runs'; readonly flight: object; readonly connection: number }
  | { readonly what: 'disconnects'; readonly late: readonly object[] }
  | { readonly what: 'receives'; readonly owner: string; readonly key: string; readonly mode: LockMode }
  | { readonly what: 'listens'; readonly isOn: boolean }
  | { readonly what: 'closes' };

/** A request about one lock of an owner. */
export type Sent = AcquireRequest | ReleaseRequest | ExtendRequest;

/** Where something travels: on the connection in one of its directions, on one that has ended, or by itself. */
export type Lane = 'request' | 'reply' | 'late' | 'message' | 'connect' | 'subscribe';

/** A request on its way. */
interface OnTheWay {
  /** Runs it on the server, and sends the reply over a connection. */
  run(connection: number): void;
  fail(error: Error): void;
}

/**
 * One instance's connection to the store. Requests run in the order in which they were sent. Messages travel on another
 * connection, so they come in any order with the replies. Everything is decided by random numbers.
 */
export class Wire implements LockStore {
  faults: Faults = NO_FAULTS;
  /** How many requests were sent. */
  requests = 0;
  /** Called when a release by force runs. */
  onForce: (key: string) => void = () => undefined;
  /** Called with everything that happens. */
  onEvent: (event: WireEvent) => void = () => undefined;
  /** Calls a task later. Tasks of one lane never overtake each other. */
  later: (delayMs: number, task: () => void, lane: Lane) => void = (delayMs, task) => {
    if (delayMs <= 0) queueMicrotask(task);
    else this.clock.schedule(delayMs, task);
  };
  /** Whether the first caller of the instance that waits for a key wants this mode, and waits for others. */
  isAwaited: (key: string, mode: LockMode) => boolean = () => false;
  /** Whether the instance is about to end its connection, because its shutdown has reached its time limit. */
  isGivenUp: () => boolean = () => false;
  private listener: StoreListener | undefined;
  private connection = 0;
  /** When the last request, and the last reply, of the connection arrives. */
  private requestsUntil = 0;
  private repliesUntil = 0;
  private readonly onTheWay = new Set<OnTheWay>();
  /** The last owners, for messages that are forged. */
  private readonly owners: Pick<AcquireRequest, 'owner' | 'key' | 'mode'>[] = [];
  private isClosed = false;

  constructor(
    private readonly inner: MemoryStore,
    private readonly clock: Clock,
    /** The process that reads what arrives. */
    private readonly process: ProcessClock,
    private readonly referee: Referee,
    private readonly hasQueue: boolean,
  ) {}

  get capabilities() {
    return { ...this.inner.capabilities, queue: this.hasQueue };
  }

  listen(listener: StoreListener): void {
    this.listener = listener;
    this.subscribe();
  }

  acquire(request: AcquireRequest, listener: ReplyListener<AcquireReply>): void {
    this.owners.push(request);
    if (this.owners.length > 6) this.owners.shift();
    this.referee.onAcquire(request);
    const reply = this.send(
      'acquire',
      [request],
      () => asked(this.inner).acquire(request),
      () => this.referee.onOutcome(request),
    );
    answer(listener, reply);
  }

  release(request: ReleaseRequest, listener: ReplyListener<boolean>): void {
    this.referee.onRelease(request, this.isAwaited(request.key, request.mode), this.isGivenUp());
    answer(
      listener,
      this.send('release', [request], () => asked(this.inner).release(request)),
    );
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    const sent = this.send('extend', requests, () => this.inner.extend(requests));
    return sent.catch(() => requests.map(() => 'unknown' as const));
  }

  forceRelease(request: ForceReleaseRequest): Promise<boolean> {
    return this.send('force', [], () => {
      this.onForce(request.key);
      return this.inner.forceRelease(request);
    });
  }

  transfer(request: TransferRequest, listener: ReplyListener<TransferReply>): void {
    this.referee.onTransfer(request);
    answer(
      listener,
      this.send('transfer', [], () => asked(this.inner).transfer(request)),
    );
  }

  inspect(key: string): Promise<LockState | null> {
    return this.inner.inspect(key);
  }

  serverOf(): undefined {
    return undefined;
  }

  ping(): Promise<StorePing> {
    return this.inner.ping();
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.onEvent({ what: 'closes' });
    if (this.listener !== undefined) this.inner.forget(this.listener.instanceId);
  }

  /** Ends the connection. */
  disconnect(): void {
    if (this.isClosed) return;
    const ended = this.connection;
    this.connection += 1;
    this.requestsUntil = this.repliesUntil = this.clock.now();
    const cut = [...this.onTheWay];
    this.onTheWay.clear();
    const { resends, arrivesLate, deafMs } = this.faults;
    const lateMs = this.clock.random() * 400;
    const isLate = this.clock.random() < arrivesLate;
    this.onEvent({ what: 'disconnects', late: isLate ? cut : [] });
    this.onEvent({ what: 'listens', isOn: false });
    for (const request of cut) {
      // Bytes of a dead connection arrive in order.
      if (isLate) this.later(lateMs, () => request.run(ended), 'late');
      if (!resends) this.process.read(() => request.fail(new UnansweredError('the connection ended before the reply')));
    }
    if (this.listener !== undefined) this.inner.forget(this.listener.instanceId);
    const reconnect = (): void => {
      if (resends) for (const request of cut) this.resend(request);
      this.process.read(() => this.listener?.onReconnected());
    };
    this.later(this.clock.random() * 20, reconnect, 'connect');
    this.later(this.clock.random() * deafMs, () => this.subscribe(), 'subscribe');
  }

  private resend(request: OnTheWay): void {
    this.onEvent({ what: 'resends', flight: request });
    this.transmit(request);
  }

  private subscribe(): void {
    const { listener } = this;
    if (listener === undefined || this.isClosed) return;
    this.onEvent({ what: 'listens', isOn: true });
    this.inner.listen({ ...listener, onWake: (...wake) => this.onMessage(...wake) });
    this.process.read(() => listener.onSubscribed());
  }

  private onMessage(...wake: Wake): void {
    const { messageLost, messageTwice } = this.faults;
    if (this.hits(messageLost)) return;
    this.later(this.delay(), () => this.wake(...wake), 'message');
    if (this.hits(messageTwice)) this.later(this.clock.random() * 300, () => this.wake(...wake), 'message');
  }

  private forge(): void {
    const known = this.owners[Math.floor(this.clock.random() * this.owners.length)];
    if (known === undefined) return;
    const isIssued = this.clock.random() < 0.9;
    const owner = isIssued ? known.owner : `${this.listener?.instanceId}:1000000`;
    this.later(this.delay(), () => this.wake(owner, known.key, known.mode), 'message');
  }

  private wake(...wake: Wake): void {
    if (this.isClosed) return;
    this.process.read(() => {
      const [owner, key, mode] = wake;
      this.onEvent({ what: 'receives', owner, key, mode });
      this.listener?.onWake(...wake);
      this.referee.onWake(wake[0]);
    });
  }

  private async send<T>(
    verb: string,
    requests: readonly Sent[],
    run: () => Promise<T>,
    onOutcome: () => void = () => undefined,
  ): Promise<T> {
    this.requests += 1;
    try {
      return await this.exchange(verb, requests, run);
    } finally {
      onOutcome();
    }
  }

  private exchange<T>(verb: string, requests: readonly Sent[], run: () => Promise<T>): Promise<T> {
    if (this.hits(this.faults.disconnect)) this.disconnect();
    if (this.hits(this.faults.messageForged)) this.forge();
    if (this.hits(this.faults.refused)) return this.refuse(verb, requests);
    return new Promise((resolve, reject) => {
      const request: OnTheWay = {
        run: (connection) => {
          const onReply = (reply: T): void => {
            if (connection !== this.connection || !this.onTheWay.has(request)) return;
            this.repliesUntil = Math.max(this.repliesUntil, this.clock.now() + this.delay());
            const read = (): void => {
              this.onEvent({ what: 'reads', flight: request });
              resolve(reply);
            };
            const arrive = (): void => {
              if (connection === this.connection && this.onTheWay.delete(request)) this.process.read(read);
            };
            this.later(this.repliesUntil - this.clock.now(), arrive, 'reply');
          };
          this.onEvent({ what: 'runs', flight: request, connection });
          void run().then(onReply);
        },
        fail: (error) => {
          this.onEvent({ what: 'fails', flight: request });
          reject(error);
        },
      };
      this.onEvent({ what: 'sends', flight: request, verb, requests });
      this.transmit(request);
    });
  }

  private refuse(verb: string, requests: readonly Sent[]): Promise<never> {
    const flight = {};
    this.onEvent({ what: 'sends', flight, verb, requests });
    this.onEvent({ what: 'refuses', flight });
    return new Promise((_, reject) => {
      const read = (): void => {
        this.onEvent({ what: 'reads', flight });
        reject(new LockUnavailableError('refused', { refusal: 'OOM' }));
      };
      this.later(this.delay(), () => this.process.read(read), 'message');
    });
  }

  private transmit(request: OnTheWay): void {
    const { connection } = this;
    this.onTheWay.add(request);
    this.requestsUntil = Math.max(this.requestsUntil, this.clock.now() + this.delay());
    const arrive = (): void => {
      if (connection === this.connection) request.run(connection);
    };
    this.later(this.requestsUntil - this.clock.now(), arrive, 'request');
  }

  private delay(): number {
    return this.faults.longestMs === 0 ? 0 : this.clock.random() ** 3 * this.faults.longestMs;
  }

  private hits(likelihood: number): boolean {
    return likelihood > 0 && this.clock.random() < likelihood;
  }
}
