import { afterPromiseJobs, atNextTick, type Clock } from '../../core/time/clock.js';
import type { LockOwnership } from '../../core/store/lock-store.js';
import { PendingReply } from '../../core/store/pending-reply.js';
import { runOutside } from '../../core/context/async-context.js';
import { toError } from '../../redis/redis-errors.js';

/** Keeps a script short, because Redis runs one at a time: 64 locks take 0.3 ms if they are free, 1 ms if not. */
export const MAX_BATCH = 64;

/** A request looks at no more batches than this. One that fits none of them begins another. */
const MOST_LOOKED_AT = 32;

/** After this many milliseconds, the next request sends those that wait. */
const MAX_AGE_MS = 1;

/** A request for one lock. */
type OwnedRequest = Pick<LockOwnership, 'owner' | 'keys'>;

/** The replies to several requests, an error among them for those that failed. */
export type RepliesTogether<Reply> = Promise<readonly (Reply | Error)[] | undefined>;

/** A request, and its reply once that has arrived. */
export class Entry<Request, Reply> extends PendingReply<Reply> {
  constructor(readonly request: Request) {
    super();
  }
}

/** Sends requests, one by one or several at a time. */
export interface BatchSender<Request, Reply> {
  /** Returns a string that is the same for all requests whose locks one script call can name. */
  groupOf(request: Request): string;
  /** Returns true if one script call can do both. They are of one group. */
  fits(first: Request, next: Request): boolean;
  /**
   * Sends one request, and settles its promise.
   *
   * @param hasOthers whether other requests leave at the same time, in the same packet if they go to the same node.
   */
  sendAlone(entry: Entry<Request, Reply>, hasOthers: boolean): void;
  /**
   * Sends several requests in one script call. Returns a reply or an error for each, in the same order. Returns
   * undefined, or a promise of it, if they were not sent or were refused as a whole: each has to be sent alone.
   */
  sendTogether(requests: readonly Request[]): RepliesTogether<Reply> | undefined;
}

/** Requests for one script call. */
class Batch<Request extends OwnedRequest, Reply> {
  private entries: Entry<Request, Reply>[] = [];
  /** What the owners that were cancelled after the call was sent get, if their requests have to be sent again. */
  private cancelled: Map<string, Reply> | undefined = undefined;
  private isSent = false;

  constructor(
    private readonly sender: BatchSender<Request, Reply>,
    /** Called when a request of the batch need not be sent again. */
    private readonly onOver: (request: Request) => void,
  ) {}

  get isFull(): boolean {
    return this.entries.length >= MAX_BATCH;
  }

  add(request: Request): PendingReply<Reply> {
    const entry = new Entry<Request, Reply>(request);
    // In a cluster, most batches have one entry. The first `push` would reserve memory for 16 more.
    if (this.entries.length === 0) this.entries = [entry];
    else this.entries.push(entry);
    return entry;
  }

  /** Returns whether the request can be added. */
  fits(request: Request): boolean {
    return this.entries.length === 0 || this.sender.fits(this.entries[0].request, request);
  }

  /** Returns whether a request of the batch names the key. */
  names(key: string): boolean {
    return this.entries.some(({ request }) => request.keys[0] === key);
  }

  /** Sees to it that an owner's request is not sent from now on. Returns false if it was sent. */
  cancel(owner: string, reply: Reply): boolean {
    if (this.isSent) {
      (this.cancelled ??= new Map()).set(owner, reply);
      return false;
    }
    const place = this.entries.findIndex(({ request }) => request.owner === owner);
    const [entry] = this.entries.splice(place, 1);
    // Its listener is the caller.
    afterPromiseJobs(() => entry.resolve(reply));
    return true;
  }

  send(hasOthers: boolean): void {
    this.isSent = true;
    const { entries } = this;
    if (entries.length <= 1) return this.sendEachAlone(hasOthers);
    const replies = this.sendTogether();
    if (replies === undefined) return this.sendEachAlone(true);
    replies.then(
      (all) => (all === undefined ? this.sendEachAlone(true) : this.settle(all)),
      (error: unknown) => this.settle(entries.map(() => toError(error))),
    );
  }

  private sendTogether(): RepliesTogether<Reply> | undefined {
    try {
      return this.sender.sendTogether(this.entries.map(({ request }) => request));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  private sendEachAlone(hasOthers: boolean): void {
    for (const entry of this.entries) {
      const { owner } = entry.request;
      this.onOver(entry.request);
      const reply = this.cancelled?.get(owner);
      if (reply !== undefined) afterPromiseJobs(() => entry.resolve(reply));
      else this.sendAlone(entry, hasOthers);
    }
  }

  private sendAlone(entry: Entry<Request, Reply>, hasOthers: boolean): void {
    try {
      this.sender.sendAlone(entry, hasOthers);
    } catch (error) {
      afterPromiseJobs(() => entry.reject(error));
    }
  }

  private settle(replies: readonly (Reply | Error)[]): void {
    this.entries.forEach((entry, i) => {
      const reply = replies[i];
      this.onOver(entry.request);
      if (reply instanceof Error) entry.reject(reply);
      else entry.resolve(reply);
    });
  }
}

/** The requests of one kind that wait to be sent. */
class Collector<Request extends OwnedRequest, Reply> {
  private batches: Batch<Request, Reply>[] = [];
  private readonly byGroup = new Map<string, Batch<Request, Reply>[]>();

  constructor(
    private readonly sender: BatchSender<Request, Reply>,
    private readonly onOver: (request: Request) => void,
  ) {}

  /** Returns a batch for the request. */
  batchFor(request: Request): Batch<Request, Reply> {
    const group = this.sender.groupOf(request);
    const batches = this.byGroup.get(group);
    const fitting = batches && fittingOf(batches, request);
    if (fitting !== undefined) return fitting;
    const batch = new Batch(this.sender, this.onOver);
    this.batches.push(batch);
    if (batches === undefined) this.byGroup.set(group, [batch]);
    else batches.push(batch);
    return batch;
  }

  /** Removes the batches. */
  take(): readonly Batch<Request, Reply>[] {
    const { batches } = this;
    if (batches.length === 0) return batches;
    this.batches = [];
    this.byGroup.clear();
    return batches;
  }
}

/** Returns the last batch to which a request can be added. Undefined if another batch has to begin. */
function fittingOf<Request extends OwnedRequest, Reply>(
  batches: readonly Batch<Request, Reply>[],
  request: Request,
): Batch<Request, Reply> | undefined {
  const end = Math.max(0, batches.length - MOST_LOOKED_AT);
  for (let i = batches.length - 1; i >= end; i -= 1) {
    if (batches[i].fits(request)) return batches[i];
    // Requests for one key arrive in the order in which they were made.
    if (batches[i].names(request.keys[0])) return undefined;
  }
  return undefined;
}

/**
 * The door through which the requests for one lock leave. Those that are made until the promise jobs have run leave
 * together, releases first and acquires last, several in one script call. Renewals do not wait: what waits leaves with
 * them.
 */
export class TickBatches<
  Acquire extends OwnedRequest,
  AcquireReply,
  Release extends OwnedRequest,
  ReleaseReply,
  Extend extends OwnedRequest,
  ExtendReply,
> {
  private readonly acquires: Collector<Acquire, AcquireReply>;
  private readonly releases: Collector<Release, ReleaseReply>;
  private readonly extensions: Collector<Extend, ExtendReply>;
  /** The batch of each owner's acquire request that may still be sent: for the first time, or once more and alone. */
  private readonly batchOfOwner = new Map<string, Batch<Acquire, AcquireReply>>();
  private isDue = false;
  /** When the second of the requests that wait was made. Undefined before. */
  private waitingSince: number | undefined = undefined;
  private readonly onDue = (): void => {
    this.isDue = false;
    this.flush();
  };

  constructor(
    private readonly clock: Pick<Clock, 'now'>,
    acquires: BatchSender<Acquire, AcquireReply>,
    releases: BatchSender<Release, ReleaseReply>,
    extensions: BatchSender<Extend, ExtendReply>,
  ) {
    this.acquires = new Collector(acquires, ({ owner }) => this.batchOfOwner.delete(owner));
    this.releases = new Collector(releases, () => undefined);
    this.extensions = new Collector(extensions, () => undefined);
  }

  acquire(request: Acquire): PendingReply<AcquireReply> {
    this.begin();
    const batch = this.acquires.batchFor(request);
    this.batchOfOwner.set(request.owner, batch);
    return this.add(batch, request);
  }

  release(request: Release): PendingReply<ReleaseReply> {
    this.begin();
    return this.add(this.releases.batchFor(request), request);
  }

  /** Sends the requests now, because the work under their locks may block the event loop. */
  extend(requests: readonly Extend[]): readonly PendingReply<ExtendReply>[] {
    const replies = requests.map((request) => this.add(this.extensions.batchFor(request), request));
    this.flush();
    return replies;
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

  /** Sends what waits. Call it before another request that has to arrive later. */
  flush(): void {
    this.waitingSince = undefined;
    const batches = [...this.releases.take(), ...this.extensions.take(), ...this.acquires.take()];
    if (batches.length === 0) return;
    // A batch serves several callers.
    runOutside(() => {
      for (const batch of batches) batch.send(batches.length > 1);
    });
  }

  private add<Request extends OwnedRequest, Reply>(
    batch: Batch<Request, Reply>,
    request: Request,
  ): PendingReply<Reply> {
    const reply = batch.add(request);
    // Redis begins with it while further requests are made.
    if (batch.isFull) this.flush();
    return reply;
  }

  /** Called before a request is added. Sends what has waited for long, because other code blocks the event loop. */
  private begin(): void {
    if (!this.isDue) {
      this.isDue = true;
      return atNextTick(this.onDue);
    }
    const now = this.clock.now();
    this.waitingSince ??= now;
    if (now - this.waitingSince > MAX_AGE_MS) this.flush();
  }
}
