import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  HolderInfo,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  StoreListener,
} from 'nestjs-redis-lock/store';

/** The news that a lock was handed to this instance. */
export type Handoff = Parameters<StoreListener['onHandoff']>[0];

type Verb = 'acquire' | 'release' | 'extend' | 'inspect';

/** What comes back from the store: answers, and the news of hand-offs. */
type News = Verb | 'handoff';

interface Held<Kind> {
  readonly of: Kind;
  readonly deliver: () => void;
}

/**
 * A store whose answers and hand-offs can be held back, lost or replaced by errors. The verbs themselves run at once on the
 * store behind it: what goes wrong is the way back, which is the case that hurts. Only what is delayed runs later.
 */
export class FaultyStore implements LockStore {
  readonly asks: AcquireRequest[] = [];
  readonly releases: ReleaseRequest[] = [];
  readonly extendBatches: (readonly ExtendRequest[])[] = [];
  /** The hand-offs that this instance was told of, or will be. */
  readonly handoffs: Handoff[] = [];
  private readonly holding = new Set<News>();
  private readonly failing = new Map<Verb, Error>();
  private readonly delaying = new Set<Verb>();
  private readonly losing = new Map<Verb, Error>();
  private heldBack: Held<News>[] = [];
  private onTheWay: Held<Verb>[] = [];
  private listener: StoreListener | undefined;

  constructor(private readonly behind: LockStore) {}

  /** As if keys were on several servers. */
  serverOf: LockStore['serverOf'];

  /** What the store behind it can do, but for what is set here. */
  readonly less: { -readonly [K in keyof StoreCapabilities]?: StoreCapabilities[K] } = {};

  get capabilities(): StoreCapabilities {
    return { ...this.behind.capabilities, ...this.less };
  }

  listen(listener: StoreListener): () => void {
    this.listener = listener;
    const onHandoff = (handoff: Handoff): void => {
      this.handoffs.push(handoff);
      if (this.holding.has('handoff')) this.heldBack.push({ of: 'handoff', deliver: () => this.tell(handoff) });
      else this.tell(handoff);
    };
    return this.behind.listen({ ...NOTHING, instanceId: listener.instanceId, onHandoff });
  }

  /** From now on answers to this verb, or hand-offs, are held back. */
  hold(what: News): void {
    this.holding.add(what);
  }

  /** Delivers what was held back of this kind, and holds nothing back any more. */
  deliver(what: News): void {
    this.holding.delete(what);
    const due = this.heldBack.filter(({ of }) => of === what);
    this.heldBack = this.heldBack.filter(({ of }) => of !== what);
    for (const { deliver } of due) deliver();
  }

  /** From now on requests of this verb are on their way, and have not run. */
  delay(verb: Verb): void {
    this.delaying.add(verb);
  }

  /** Runs what was on its way of this verb, and delays nothing any more. */
  arrive(verb: Verb): void {
    this.delaying.delete(verb);
    const due = this.onTheWay.filter(({ of }) => of === verb);
    this.onTheWay = this.onTheWay.filter(({ of }) => of !== verb);
    for (const { deliver } of due) deliver();
  }

  /** From now on requests of this verb never run, and fail with that error; without one they run again. */
  lose(verb: Verb, error?: Error): void {
    if (error === undefined) this.losing.delete(verb);
    else this.losing.set(verb, error);
  }

  /** Tells of a hand-off: once more, or one that nobody made. */
  tell(handoff: Handoff): void {
    this.listener?.onHandoff(handoff);
  }

  /** Tells that a key may be free. */
  tellFreed(key: string): void {
    this.listener?.onReleased(key);
  }

  /** Hand-offs can be heard again, of all keys or of these. */
  relisten(concerns?: (key: string) => boolean): void {
    this.listener?.onSubscribed(concerns);
  }

  /** From now on this verb runs, and its answer is that error; without one it is answered again. */
  fail(verb: Verb, error?: Error): void {
    if (error === undefined) this.failing.delete(verb);
    else this.failing.set(verb, error);
  }

  /** A connection ended, of all keys or of these. */
  disconnect(concerns?: (key: string) => boolean): void {
    this.listener?.onDisconnected(concerns);
  }

  acquire(request: AcquireRequest): Promise<AcquireReply> {
    this.asks.push(request);
    return this.request('acquire', () => this.behind.acquire(request));
  }

  release(request: ReleaseRequest): Promise<boolean> {
    this.releases.push(request);
    return this.request('release', () => this.behind.release(request));
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    this.extendBatches.push(requests);
    return this.request('extend', () => this.behind.extend(requests));
  }

  inspect(key: string): Promise<HolderInfo | null> {
    return this.request('inspect', () => this.behind.inspect(key));
  }

  close(): Promise<void> {
    return this.behind.close();
  }

  private request<T>(verb: Verb, run: () => Promise<T>): Promise<T> {
    const loss = this.losing.get(verb);
    if (loss !== undefined) return Promise.reject(loss);
    if (!this.delaying.has(verb)) return this.answer(verb, run());
    return new Promise((resolve) => {
      this.onTheWay.push({ of: verb, deliver: () => resolve(this.answer(verb, run())) });
    });
  }

  private answer<T>(verb: Verb, answer: Promise<T>): Promise<T> {
    const failure = this.failing.get(verb);
    if (failure !== undefined) return answer.then(() => Promise.reject(failure));
    if (!this.holding.has(verb)) return answer;
    return new Promise((resolve) => this.heldBack.push({ of: verb, deliver: () => resolve(answer) }));
  }
}

const nothing = (): void => undefined;

/** A listener that hears nothing: what is not taken in here does not come from a store in memory. */
const NOTHING = {
  onReleased: nothing,
  onSubscribed: nothing,
  onDegraded: nothing,
  onDisconnected: nothing,
  onUnreachable: nothing,
  onReachable: nothing,
};
