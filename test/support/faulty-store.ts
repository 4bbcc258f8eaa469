import type {
  AskReply,
  AskRequest,
  ExtendReply,
  ExtendRequest,
  HolderInfo,
  LockStore,
  ReleaseRequest,
  StoreListener,
} from 'nestjs-redis-lock';

type Verb = 'ask' | 'release' | 'extend' | 'inspect';

interface Held {
  readonly verb: Verb;
  readonly deliver: () => void;
}

/**
 * A store whose answers can be held back, lost or replaced by errors. The verbs themselves run at once on the store behind
 * it: what goes wrong is the way back, which is the case that hurts.
 */
export class FaultyStore implements LockStore {
  readonly asks: AskRequest[] = [];
  readonly releases: ReleaseRequest[] = [];
  readonly extendBatches: (readonly ExtendRequest[])[] = [];
  private readonly holding = new Set<Verb>();
  private readonly failing = new Map<Verb, Error>();
  private heldBack: Held[] = [];
  private listener: StoreListener | undefined;

  constructor(private readonly behind: LockStore) {}

  get capabilities() {
    return this.behind.capabilities;
  }

  listen(listener: StoreListener): () => void {
    this.listener = listener;
    return this.behind.listen(listener);
  }

  /** From now on answers to this verb are held back. */
  hold(verb: Verb): void {
    this.holding.add(verb);
  }

  /** Delivers what was held back of this verb, and holds nothing back any more. */
  deliver(verb: Verb): void {
    this.holding.delete(verb);
    const due = this.heldBack.filter((held) => held.verb === verb);
    this.heldBack = this.heldBack.filter((held) => held.verb !== verb);
    for (const { deliver } of due) deliver();
  }

  /** From now on this verb runs, and its answer is that error; without one it is answered again. */
  fail(verb: Verb, error?: Error): void {
    if (error === undefined) this.failing.delete(verb);
    else this.failing.set(verb, error);
  }

  disconnect(): void {
    this.listener?.disconnected();
  }

  ask(request: AskRequest): Promise<AskReply> {
    this.asks.push(request);
    return this.answer('ask', this.behind.ask(request));
  }

  release(request: ReleaseRequest): Promise<boolean> {
    this.releases.push(request);
    return this.answer('release', this.behind.release(request));
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    this.extendBatches.push(requests);
    return this.answer('extend', this.behind.extend(requests));
  }

  inspect(key: string): Promise<HolderInfo | null> {
    return this.answer('inspect', this.behind.inspect(key));
  }

  close(): Promise<void> {
    return this.behind.close();
  }

  private answer<T>(verb: Verb, answer: Promise<T>): Promise<T> {
    const failure = this.failing.get(verb);
    if (failure !== undefined) return answer.then(() => Promise.reject(failure));
    if (!this.holding.has(verb)) return answer;
    return new Promise((resolve) => this.heldBack.push({ verb, deliver: () => resolve(answer) }));
  }
}
