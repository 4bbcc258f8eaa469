import { atEndOfTick, type Clock } from '../../core/time/clock.js';
import type { LockOwnership } from '../../core/store/lock-store.js';
import { runOutside } from '../../core/async-context.js';
import type { CorkEnd } from '../../redis/redis-connection.js';
import { toError } from '../../redis/redis-errors.js';

/** Keeps a script short, because Redis runs one at a time: 64 locks take 0.3 ms if they are free, 1 ms if not. */
export const MAX_BATCH = 64;

/** A request looks at no more batches than this. One that fits none of them begins another. */
const MOST_LOOKED_AT = 32;

/** After this many milliseconds, the next request of the tick sends those that wait. */
const MAX_AGE_MS = 1;

/** A request for one lock. */
type OwnedRequest = Pick<LockOwnership, 'owner' | 'keys'>;

/** The replies to several requests, an error among them for those that have failed. */
export type RepliesTogether<Reply> = Promise<readonly (Reply | Error)[] | undefined>;

/** Sends requests, one by one or several at a time. */
export interface BatchSender<Request, Reply> {
  /** Returns a string that is the same for all requests whose locks one script call can name. */
  groupOf(request: Request): string;
  /** Returns true if one script call can do both. They are of one group. */
  fits(first: Request, next: Request): boolean;
  /** @param cork until when other requests may follow in the same packet. Default: none is expected. */
  sendAlone(request: Request, cork?: CorkEnd): Promise<Reply>;
  /**
   * Sends several requests by one script call. Returns a reply or an error for each, in the same order. Returns
   * undefined, or a promise of it, if they were not sent or were refused as a whole: each has to be sent alone.
   */
  sendTogether(requests: readonly Request[]): RepliesTogether<Reply> | undefined;
}

/** Requests for one script call. */
class Batch<Request extends OwnedRequest, Reply> {
  readonly requests: Request[] = [];
  private readonly resolves: ((reply: Reply) => void)[] = [];
  private readonly rejects: ((error: unknown) => void)[] = [];
  /** What the owners that were cancelled after the call was sent get, if their requests have to be sent again. */
  private cancelled: Map<string, Reply> | undefined = undefined;
  private isSent = false;

  constructor(
    private readonly sender: BatchSender<Request, Reply>,
    /** Called when no request of the batch has to be sent again. */
    private readonly onOver: (requests: readonly Request[]) => void,
  ) {}

  get isFull(): boolean {
    return this.requests.length >= MAX_BATCH;
  }

  add(request: Request): Promise<Reply> {
    this.requests.push(request);
    return new Promise((resolve, reject) => {
      this.resolves.push(resolve);
      this.rejects.push(reject);
    });
  }

  /** Sees to it that an owner's request is not sent from now on. Returns false if it was sent. */
  cancel(owner: string, reply: Reply): boolean {
    if (this.isSent) {
      (this.cancelled ??= new Map()).set(owner, reply);
      return false;
    }
    const place = this.requests.findIndex((request) => request.owner === owner);
    this.resolves[place](reply);
    for (const list of [this.requests, this.resolves, this.rejects]) list.splice(place, 1);
    return true;
  }

  send(): void {
    this.isSent = true;
    const replies = this.requests.length > 1 ? this.sender.sendTogether(this.requests) : undefined;
    if (replies === undefined) return this.sendEachAlone();
    replies.then(
      (all) => (all === undefined ? this.sendEachAlone() : this.settle(all)),
      (error: unknown) => this.settle(this.requests.map(() => toError(error))),
    );
  }

  private sendEachAlone(): void {
    const { requests, cancelled } = this;
    this.onOver(requests);
    requests.forEach((request, i) => {
      const reply = cancelled?.get(request.owner);
      if (reply !== undefined) this.resolves[i](reply);
      else this.sender.sendAlone(request, 'microtask').then(this.resolves[i], this.rejects[i]);
    });
  }

  private settle(replies: readonly (Reply | Error)[]): void {
    this.onOver(this.requests);
    this.requests.forEach((_, i) => {
      const reply = replies[i];
      if (reply instanceof Error) this.rejects[i](reply);
      else this.resolves[i](reply);
    });
  }
}

/** The requests of one kind: those that wait for the end of the tick, and the one that was sent at once. */
class Collector<Request extends OwnedRequest, Reply> {
  /** The request that was sent at once, while neither its reply nor the end of its tick is known. */
  alone: Request | undefined = undefined;
  /** How many other requests were made in the tick. */
  others = 0;
  /** When the oldest request was added. Infinity if there is none. */
  oldestAt = Infinity;
  /** How many batches there are. */
  count = 0;
  private groups = new Map<string, Batch<Request, Reply>[]>();

  constructor(
    readonly sender: BatchSender<Request, Reply>,
    private readonly onOver: (requests: readonly Request[]) => void,
  ) {}

  /** Returns a batch that the request can be added to. */
  batchFor(request: Request, now: number): Batch<Request, Reply> {
    const group = this.sender.groupOf(request);
    let batches = this.groups.get(group);
    if (batches === undefined) this.groups.set(group, (batches = []));
    const fits = ({ requests }: Batch<Request, Reply>): boolean =>
      requests.length === 0 || this.sender.fits(requests[0], request);
    const open = findRecent(batches, fits);
    if (open !== undefined) return open;
    const batch = new Batch(this.sender, this.onOver);
    batches.push(batch);
    this.count += 1;
    this.oldestAt = Math.min(this.oldestAt, now);
    return batch;
  }

  /** Ends the tick. Returns whether several requests were made in it. */
  endTick(): boolean {
    const hasSeveral = this.others > (this.alone === undefined ? 1 : 0);
    this.others = 0;
    this.alone = undefined;
    return hasSeveral;
  }

  /** Yields all batches with their requests. */
  *batches(): Generator<Batch<Request, Reply>> {
    for (const batches of this.groups.values()) yield* batches;
  }

  flush(): void {
    const { groups } = this;
    if (groups.size === 0) return;
    this.groups = new Map();
    this.count = 0;
    this.oldestAt = Infinity;
    for (const batches of groups.values()) for (const batch of batches) batch.send();
  }
}

/**
 * Sends the requests of one tick of the event loop together, when the tick ends or as many as fit have come, releases
 * before acquires. The first release and the first acquire are sent at once, so that a single lock waits for nothing,
 * unless several of one kind were made in the tick before. For them the end of the tick is not awaited, because that
 * costs a turn of the event loop: their replies show it.
 */
export class TickBatches<Acquire extends OwnedRequest, AcquireReply, Release extends OwnedRequest, ReleaseReply> {
  private readonly acquires: Collector<Acquire, AcquireReply>;
  private readonly releases: Collector<Release, ReleaseReply>;
  /** The batch of each owner's acquire request that may still be sent: for the first time, or once more and alone. */
  private readonly batchOfOwner = new Map<string, Batch<Acquire, AcquireReply>>();
  /** The batch with the last acquire request for each key. Empty while there is only one batch. */
  private readonly batchOfKey = new Map<string, Batch<Acquire, AcquireReply>>();
  /** Whether requests wait for the end of this tick. */
  private isCollecting = false;
  /** Whether several requests of one kind were made in the tick before, if it had any. */
  private isBusy = false;
  /** Whether the last acquire request came behind a release that was sent at once. The next one may do so, too. */
  private followsReleases = false;
  private readonly onTickEnd = (): void => {
    this.isCollecting = false;
    const [acquires, releases] = [this.acquires.endTick(), this.releases.endTick()];
    this.isBusy = acquires || releases;
    this.flush();
  };

  constructor(
    private readonly clock: Pick<Clock, 'now'>,
    acquires: BatchSender<Acquire, AcquireReply>,
    releases: BatchSender<Release, ReleaseReply>,
  ) {
    this.acquires = new Collector(acquires, (requests) => {
      for (const { owner } of requests) this.batchOfOwner.delete(owner);
    });
    this.releases = new Collector(releases, () => undefined);
  }

  acquire(request: Acquire): Promise<AcquireReply> {
    const { acquires, releases } = this;
    if (this.goesAlone(acquires)) {
      acquires.alone = request;
      this.followsReleases = releases.alone !== undefined;
      return acquires.sender.sendAlone(request);
    }
    if (this.followsRelease(request)) return acquires.sender.sendAlone(request);
    const batch = this.batchFor(request);
    this.batchOfOwner.set(request.owner, batch);
    return this.add(batch, request);
  }

  release(request: Release): Promise<ReleaseReply> {
    const { releases } = this;
    if (!this.goesAlone(releases)) return this.add(releases.batchFor(request, this.flushIfOld()), request);
    releases.alone = request;
    const cork = this.followsReleases ? 'tick' : undefined;
    this.followsReleases = false;
    return releases.sender.sendAlone(request, cork);
  }

  /** Called with a request that has got its reply. So its tick has ended. */
  onReply(request: Acquire | Release): void {
    if (this.acquires.alone === request) this.acquires.alone = undefined;
    else if (this.releases.alone === request) this.releases.alone = undefined;
  }

  /**
   * Cancels the acquire request of an owner, because a release follows. A request that was not sent gets that reply. So
   * does one that was sent, if it would have to be sent again, behind that release. Returns false if it was sent, or
   * never made.
   */
  cancel(owner: string, reply: AcquireReply): boolean {
    const batch = this.batchOfOwner.get(owner);
    if (batch === undefined) return false;
    this.batchOfOwner.delete(owner);
    return batch.cancel(owner, reply);
  }

  /** Sends what waits for the end of the tick. Call it before another request that has to arrive later. */
  flush(): void {
    if (this.oldestAt === Infinity) return;
    this.batchOfKey.clear();
    // A batch serves several callers.
    runOutside(() => {
      this.releases.flush();
      this.acquires.flush();
    });
  }

  private batchFor(request: Acquire): Batch<Acquire, AcquireReply> {
    const now = this.flushIfOld();
    const batch = this.acquires.batchFor(request, now);
    if (this.acquires.count === 1) return batch;
    if (this.batchOfKey.size === 0) this.rememberKeys();
    const [key] = request.keys;
    const earlier = this.batchOfKey.get(key);
    this.batchOfKey.set(key, batch);
    if (earlier === undefined || earlier === batch) return batch;
    // Requests for one key arrive in the order in which they were made.
    this.flush();
    return this.batchFor(request);
  }

  /** Fills `batchOfKey`, which one batch alone does not need. */
  private rememberKeys(): void {
    for (const batch of this.acquires.batches()) {
      for (const { keys } of batch.requests) this.batchOfKey.set(keys[0], batch);
    }
  }

  private add<Request extends OwnedRequest, Reply>(batch: Batch<Request, Reply>, request: Request): Promise<Reply> {
    const reply = batch.add(request);
    if (batch.isFull) this.flush();
    return reply;
  }

  private get oldestAt(): number {
    return Math.min(this.releases.oldestAt, this.acquires.oldestAt);
  }

  /** Returns whether a request is to be sent at once. Counts it otherwise. */
  private goesAlone(kind: { readonly alone: unknown; others: number }): boolean {
    if (!this.isCollecting) {
      // Replies that arrive together are answered together, so callers that wait for them stay in step.
      if (!this.isBusy && kind.alone === undefined) return true;
      this.isCollecting = true;
      atEndOfTick(this.onTickEnd);
    }
    kind.others += 1;
    return false;
  }

  /**
   * Returns true if the lock was just released by a request that is on its way. Then the next local waiter requests it.
   * That must arrive before the next holders in the queue have had the lock.
   */
  private followsRelease({ keys }: Acquire): boolean {
    const { alone } = this.releases;
    if (alone === undefined || alone.keys[0] !== keys[0]) return false;
    this.releases.alone = undefined;
    this.flush();
    return true;
  }

  /** Sends what has waited for long, because the callers of this tick block the event loop. Returns the time. */
  private flushIfOld(): number {
    const now = this.clock.now();
    if (now - this.oldestAt > MAX_AGE_MS) this.flush();
    return now;
  }
}

/** Returns one of the last items, the newest that fits. Looks at a few only: each of many requests calls it. */
export function findRecent<T>(items: readonly T[], fits: (item: T) => boolean): T | undefined {
  const end = Math.max(0, items.length - MOST_LOOKED_AT);
  for (let i = items.length - 1; i >= end; i -= 1) if (fits(items[i])) return items[i];
  return undefined;
}
