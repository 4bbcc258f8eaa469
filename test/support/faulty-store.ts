import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ForceReleaseRequest,
  LockState,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  StoreListener,
  StorePing,
} from '../../lib/core/store/lock-store.js';

/** A handoff to an owner of this instance. */
export type Handoff = Parameters<StoreListener['onHandoff']>[0];

type Verb = 'acquire' | 'release' | 'extend' | 'inspect' | 'forceRelease';

/** What comes back from the store: replies and handoffs. */
type Returned = Verb | 'handoff' | 'forced';

interface Held<Kind> {
  readonly of: Kind;
  readonly deliver: () => void;
}

/**
 * A store whose replies and handoffs a test can hold back, lose or replace by errors. Requests run at once on the inner
 * store, and only their replies are disturbed, except for requests that are delayed or lost.
 */
export class FaultyStore implements LockStore {
  readonly acquires: AcquireRequest[] = [];
  readonly releases: ReleaseRequest[] = [];
  readonly forced: ForceReleaseRequest[] = [];
  readonly extendBatches: (readonly ExtendRequest[])[] = [];
  /** The handoffs to this instance, received or held back. */
  readonly handoffs: Handoff[] = [];
  private readonly holding = new Set<Returned>();
  private readonly failing = new Map<Verb, Error>();
  private readonly delaying = new Set<Verb>();
  private readonly losing = new Map<Verb, Error>();
  private heldBack: Held<Returned>[] = [];
  private inFlight: Held<Verb>[] = [];
  private listener: StoreListener | undefined;

  constructor(private readonly inner: LockStore) {}

  /** The server of each key, if keys are on several servers. */
  serverOf: LockStore['serverOf'];

  /** What was read from the server. Set it before the store is used. Undefined: it is not known. */
  connections: LockStore['connections'];

  /** Overrides of the inner store's capabilities. */
  readonly less: { -readonly [K in keyof StoreCapabilities]?: StoreCapabilities[K] } = {};

  get capabilities(): StoreCapabilities {
    return { ...this.inner.capabilities, ...this.less };
  }

  listen(listener: StoreListener): () => void {
    this.listener = listener;
    const onHandoff = (handoff: Handoff): void => {
      this.handoffs.push(handoff);
      if (this.holding.has('handoff'))
        this.heldBack.push({ of: 'handoff', deliver: () => this.reportHandoff(handoff) });
      else this.reportHandoff(handoff);
    };
    const onForceReleased = (key: string): void => {
      const deliver = (): void => listener.onForceReleased?.(key);
      if (this.holding.has('forced')) this.heldBack.push({ of: 'forced', deliver });
      else deliver();
    };
    const { instanceId } = listener;
    return this.inner.listen({ ...IGNORED, instanceId, onHandoff, onForceReleased });
  }

  /** Holds back replies to a verb, or handoffs, from now on. */
  hold(what: Returned): void {
    this.holding.add(what);
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

  /** Reports a handoff again, or one that did not happen. */
  reportHandoff(handoff: Handoff): void {
    this.listener?.onHandoff(handoff);
  }

  /** Reports that a key was released by force. */
  reportForceReleased(key: string): void {
    this.listener?.onForceReleased?.(key);
  }

  /** Reports that a key may be free. */
  reportReleased(key: string): void {
    this.listener?.onReleased(key);
  }

  /** Reports that handoffs can be received again, of all keys or of those that `concerns` selects. */
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
    this.listener?.onDisconnected(concerns);
  }

  /** Reports that a connection is back, of all keys or of those that `concerns` selects. */
  reconnect(concerns?: (key: string) => boolean): void {
    this.listener?.onReconnected(concerns);
  }

  /** Reports that the store, or one server of it, cannot be reached. */
  reportUnreachable(error: Error, server?: string): void {
    this.listener?.onUnreachable(error, server);
  }

  /** Reports that the store, or one server of it, replies. */
  reportReachable(server?: string): void {
    this.listener?.onReachable(server);
  }

  acquire(request: AcquireRequest): Promise<AcquireReply> {
    this.acquires.push(request);
    return this.request('acquire', () => Promise.resolve(this.inner.acquire(request)));
  }

  release(request: ReleaseRequest): Promise<boolean> {
    this.releases.push(request);
    return this.request('release', () => Promise.resolve(this.inner.release(request)));
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    this.extendBatches.push(requests);
    return this.request('extend', () => this.inner.extend(requests));
  }

  forceRelease(request: ForceReleaseRequest): Promise<boolean> {
    this.forced.push(request);
    return this.request('forceRelease', () => this.inner.forceRelease?.(request) ?? Promise.resolve(false));
  }

  inspect(key: string): Promise<LockState | null> {
    return this.request('inspect', () => this.inner.inspect(key));
  }

  ping(): Promise<StorePing> {
    return this.inner.ping();
  }

  /** Leaves the inner store as it is, because other instances use it. */
  close(): Promise<void> {
    return Promise.resolve();
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

const nothing = (): void => undefined;

/** Ignores the events that a store in memory never reports. */
const IGNORED = {
  onReleased: nothing,
  onSubscribed: nothing,
  onDegraded: nothing,
  onDisconnected: nothing,
  onReconnected: nothing,
  onUnreachable: nothing,
  onReachable: nothing,
};
