import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ForceReleaseRequest,
  LockMode,
  LockState,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  StoreListener,
  StorePing,
  TransferReply,
  TransferRequest,
} from '../../lib/contract/store.js';
import { answer, type ReplyListener } from '../../lib/contract/reply-listener.js';
import { asked } from './asked.js';
import type { Servers } from '../../lib/contract/server-connection.js';
import { PendingRequests } from '../../lib/stores/pending-requests.js';
import type { StoreContext } from '../../lib/stores/store-context.js';

/** A message that wakes an owner of this instance. */
export interface Wake {
  readonly owner: string;
  readonly key: string;
}

type Verb = 'acquire' | 'release' | 'extend' | 'inspect' | 'forceRelease' | 'transfer';

/** What comes back from the store: replies and messages. */
type Returned = Verb | 'wake';

interface Held<Kind> {
  readonly of: Kind;
  readonly deliver: () => void;
}

/**
 * A store whose replies and messages a test can hold back, lose or replace by errors. Requests run at once on the inner
 * store, and only their replies are disturbed, except for requests that are delayed or lost.
 */
export class FaultyStore implements LockStore {
  readonly acquires: AcquireRequest[] = [];
  readonly releases: ReleaseRequest[] = [];
  readonly forced: ForceReleaseRequest[] = [];
  readonly transfers: TransferRequest[] = [];
  readonly extendBatches: (readonly ExtendRequest[])[] = [];
  /** The messages to this instance, received or held back. */
  readonly wakes: Wake[] = [];
  private readonly holding = new Set<Returned>();
  private readonly failing = new Map<Verb, Error>();
  private readonly delaying = new Set<Verb>();
  private readonly losing = new Map<Verb, Error>();
  private heldBack: Held<Returned>[] = [];
  private inFlight: Held<Verb>[] = [];
  private listener: StoreListener | undefined;

  private requests: PendingRequests | undefined;

  /**
   * @param connections what was read from the server. Undefined: it is not known.
   * @param serverOfKey the server of each key, if keys are on several servers.
   */
  constructor(
    private readonly inner: LockStore,
    private readonly connections?: Servers['connections'],
    private readonly serverOfKey?: Servers['serverOf'],
  ) {}

  /** Makes it the store of a module instance. */
  readonly factory = (context: StoreContext): this => {
    this.requests = new PendingRequests(
      context,
      { connections: this.connections, serverOf: this.serverOfKey },
      (error, server) => this.listener?.onDown(error, server),
    );
    return this;
  };

  /** Overrides of the inner store's capabilities. */
  readonly less: { -readonly [K in keyof StoreCapabilities]?: StoreCapabilities[K] } = {};

  get capabilities(): StoreCapabilities {
    return { ...this.inner.capabilities, ...this.less };
  }

  listen(listener: StoreListener): void {
    this.listener = listener;
    this.inner.listen({
      ...listener,
      onWake: (owner, key, mode) => {
        this.wakes.push({ owner, key });
        const deliver = (): void => this.reportWake(owner, key, mode);
        if (this.holding.has('wake')) this.heldBack.push({ of: 'wake', deliver });
        else deliver();
      },
    });
  }

  serverOf(key: string): string | undefined {
    return this.serverOfKey?.(key);
  }

  /** Holds back replies to a verb, or messages, from now on. */
  hold(what: Returned): void {
    this.holding.add(what);
  }

  /** Delivers the first that was held back. The others, and later ones, stay. */
  deliverFirst(what: Returned): void {
    const at = this.heldBack.findIndex(({ of }) => of === what);
    for (const { deliver } of this.heldBack.splice(at, 1)) deliver();
  }

  /** Delivers what was held back, and holds nothing more back. */
  deliver(what: Returned): void {
    this.holding.delete(what);
    const due = this.heldBack.filter(({ of }) => of === what);
    this.heldBack = this.heldBack.filter(({ of }) => of !== what);
    for (const { deliver } of due) deliver();
  }

  /** Loses what was held back, and holds nothing more back. */
  drop(what: Returned): void {
    this.holding.delete(what);
    this.heldBack = this.heldBack.filter(({ of }) => of !== what);
  }

  /** Delays requests of a verb from now on, so that they do not run yet. */
  delay(verb: Verb): void {
    this.delaying.add(verb);
  }

  /** Runs the delayed requests of a verb, and delays no further ones. */
  arrive(verb: Verb): void {
    this.delaying.delete(verb);
    const due = this.inFlight.filter(({ of }) => of === verb);
    this.inFlight = this.inFlight.filter(({ of }) => of !== verb);
    for (const { deliver } of due) deliver();
  }

  /** Loses requests of a verb from now on: they do not run, and reject with `error`. Without `error` they run again. */
  lose(verb: Verb, error?: Error): void {
    if (error === undefined) this.losing.delete(verb);
    else this.losing.set(verb, error);
  }

  /** Wakes an owner. */
  reportWake(owner: string, key: string, mode: LockMode = 'exclusive'): void {
    this.listener?.onWake(owner, key, mode);
  }

  /** Wakes the owners of a key that may have the lock, as a release by force does. */
  reportForceReleased(key: string): void {
    const over = new Set(this.releases.map(({ owner }) => owner));
    const owners = new Map(this.acquires.filter((each) => each.key === key).map((each) => [each.owner, each.mode]));
    for (const [owner, mode] of owners) if (!over.has(owner)) this.reportWake(owner, key, mode);
  }

  /** Reports that a key may be free. */
  reportReleased(key: string): void {
    this.listener?.onReleased(key);
  }

  /** Reports that messages arrive again, of all keys or of those that `concerns` selects. */
  reportSubscribed(concerns?: (key: string) => boolean): void {
    this.listener?.onSubscribed(concerns);
  }

  /** Replaces replies to a verb by `error` from now on: requests run. Without `error` they get their replies again. */
  fail(verb: Verb, error?: Error): void {
    if (error === undefined) this.failing.delete(verb);
    else this.failing.set(verb, error);
  }

  /** Reports the end of a connection, of all keys or of those that `concerns` selects. */
  disconnect(concerns?: (key: string) => boolean): void {
    this.requests?.cut(concerns);
  }

  /** Reports that a connection is back, of all keys or of those that `concerns` selects. */
  reconnect(concerns?: (key: string) => boolean): void {
    this.listener?.onReconnected(concerns);
  }

  /** Reports that the store, or one server of it, cannot be reached. */
  reportUnreachable(error: Error, server?: string): void {
    this.listener?.onDown(error, server);
  }

  /** Reports that the store, or one server of it, replies. */
  reportReachable(server?: string): void {
    this.listener?.onUp(server);
  }

  acquire(request: AcquireRequest, listener: ReplyListener<AcquireReply>): void {
    this.acquires.push(request);
    answer(
      listener,
      this.expect(request.key, 'acquire', () => asked(this.inner).acquire(request)),
    );
  }

  release(request: ReleaseRequest, listener: ReplyListener<boolean>): void {
    this.releases.push(request);
    answer(
      listener,
      this.expect(request.key, 'release', () => asked(this.inner).release(request)),
    );
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    this.extendBatches.push(requests);
    const unknown = requests.map((): ExtendReply => 'unknown');
    return this.expect(requests[0].key, 'extend', () => this.inner.extend(requests)).catch(() => unknown);
  }

  forceRelease(request: ForceReleaseRequest): Promise<boolean> {
    this.forced.push(request);
    return this.request('forceRelease', () => this.inner.forceRelease?.(request) ?? Promise.resolve(false));
  }

  transfer(request: TransferRequest, listener: ReplyListener<TransferReply>): void {
    this.transfers.push(request);
    answer(
      listener,
      this.expect(request.key, 'transfer', () => asked(this.inner).transfer(request)),
    );
  }

  inspect(key: string): Promise<LockState | null> {
    return this.request('inspect', () => this.inner.inspect(key));
  }

  ping(): Promise<StorePing> {
    return this.inner.ping();
  }

  /** Leaves the inner store as it is, because other instances use it. */
  close(): Promise<void> {
    this.requests?.close();
    return Promise.resolve();
  }

  private expect<T>(key: string, verb: Verb, run: () => Promise<T>): Promise<T> {
    const send = (): Promise<T> => this.request(verb, run);
    return this.requests?.expect(key, send) ?? send();
  }

  private request<T>(verb: Verb, run: () => Promise<T>): Promise<T> {
    const loss = this.losing.get(verb);
    if (loss !== undefined) return Promise.reject(loss);
    if (!this.delaying.has(verb)) return this.returned(verb, run());
    return new Promise((resolve) => {
      this.inFlight.push({ of: verb, deliver: () => resolve(this.returned(verb, run())) });
    });
  }

  private returned<T>(verb: Verb, reply: Promise<T>): Promise<T> {
    const failure = this.failing.get(verb);
    if (failure !== undefined) return reply.then(() => Promise.reject(failure));
    if (!this.holding.has(verb)) return reply;
    return new Promise((resolve) => this.heldBack.push({ of: verb, deliver: () => resolve(reply) }));
  }
}
