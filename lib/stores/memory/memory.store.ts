import { answer, type ReplyListener } from '../../contract/reply-listener.js';
import { instanceOf } from '../../contract/instance-id.js';
import { afterPromiseJobs, atEndOfTick, type Clock } from '../../clock/clock.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ForceReleaseRequest,
  HolderHint,
  ListedLock,
  ListRequest,
  LockState,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  StoreListener,
  StorePing,
  TransferReply,
  TransferRequest,
} from '../../contract/store.js';
import type { StoreFactory } from '../store-context.js';
import { type Holder, LockTable } from './lock-table.js';

/**
 * Keeps locks in this process, with the guarantees of the token store: a queue, fencing tokens, shared modes and
 * multi-locks. For tests and for development without Redis. Each module instance has its own locks.
 *
 * @publicApi
 */
export function memory(): StoreFactory {
  return ({ clock }) => new MemoryStore(clock);
}

/** How many requests in one turn of the event loop get their replies in it. Otherwise no timer of a loop would fire. */
const MOST_IN_TURN = 1_000;

/** The store behind {@link memory}. Several engines can use one. */
export class MemoryStore implements LockStore {
  readonly capabilities: StoreCapabilities = {
    name: 'memory()',
    queue: true,
    fencing: true,
    idempotentAcquire: true,
    modes: ['exclusive', 'shared', 'permits'],
    once: true,
    resolutionMs: 1,
  };

  readonly table: LockTable;
  private readonly listeners = new Map<string, StoreListener>();
  private repliesInTurn = 0;

  constructor(private readonly clock: Clock) {
    this.table = new LockTable({
      now: () => clock.now(),
      wallMicros: () => Math.floor(clock.wallTime() * 1_000),
      isListening: (instanceId) => this.listeners.has(instanceId),
      // As with Redis, a message arrives after the reply to the request that caused it.
      wake: (key, { owner, mode }) =>
        afterPromiseJobs(() => this.listeners.get(instanceOf(owner))?.onWake(owner, key, mode)),
    });
  }

  listen(listener: StoreListener): void {
    this.listeners.set(listener.instanceId, listener);
  }

  /** Sends no more messages to an instance, as if its connection had ended. */
  forget(instanceId: string): void {
    this.listeners.delete(instanceId);
  }

  acquire(request: AcquireRequest, listener: ReplyListener<AcquireReply>): void {
    const { key, owner, mode, leaseMs, wait, handoffMs, method, label } = request;
    const reply = this.table.acquire(key, { owner, mode, method, label }, leaseMs, wait, handoffMs);
    answer(listener, this.reply(reply.status === 'held' ? { ...reply, holder: this.holderOf(key) } : reply));
  }

  release(request: ReleaseRequest, listener: ReplyListener<boolean>): void {
    const { key, owner, mode, closedForMs, isDone, handoffMs } = request;
    answer(listener, this.reply(this.table.release(key, { owner, mode }, closedForMs, handoffMs, isDone)));
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    const replies = requests.map(({ key, owner, mode, leaseMs }): ExtendReply => {
      return this.table.extend(key, { owner, mode }, leaseMs) ? 'renewed' : 'lost';
    });
    return this.reply(replies);
  }

  transfer({ key, ...request }: TransferRequest, listener: ReplyListener<TransferReply>): void {
    answer(listener, this.reply(this.table.transfer(key, request)));
  }

  forceRelease({ key, handoffMs, ifToken }: ForceReleaseRequest): Promise<boolean> {
    return this.reply(this.table.forceRelease(key, handoffMs, ifToken));
  }

  inspect(key: string): Promise<LockState | null> {
    return this.reply(this.stateOf(key));
  }

  async *list({ selects }: ListRequest): AsyncGenerator<ListedLock> {
    // A lock that is acquired again during the listing is not yielded again.
    const keys = Array.from(this.table.rows.keys());
    for (const key of keys) {
      const state = selects(key) ? this.stateOf(key) : null;
      if (state !== null) yield { key, state };
    }
  }

  serverOf(): undefined {
    return undefined;
  }

  ping(): Promise<StorePing> {
    return Promise.resolve({ isUp: true, handoff: 'subscription', degraded: undefined, servers: [] });
  }

  close(): Promise<void> {
    this.listeners.clear();
    this.table.clear();
    return Promise.resolve();
  }

  private async reply<T>(value: T): Promise<T> {
    if (this.repliesInTurn === 0) atEndOfTick(() => (this.repliesInTurn = 0));
    this.repliesInTurn += 1;
    if (this.repliesInTurn > MOST_IN_TURN) await new Promise<void>((resolve) => atEndOfTick(resolve));
    return value;
  }

  private stateOf(key: string): LockState | null {
    const [first, ...others] = this.table.holders(key);
    const waiting = this.table.waiting(key).map(({ owner, mode }) => ({ waiter: instanceOf(owner), mode }));
    if (first === undefined) return waiting.length === 0 ? null : { waiting };
    const infoOf = ({ owner, token, endsAt, method, label }: Holder) => {
      return { holder: instanceOf(owner), remainingMs: endsAt - this.clock.now(), token, method, label };
    };
    const since = this.holderOf(key)?.since;
    const { mode, isDone } = first;
    return { ...infoOf(first), since, mode, isDone, others: others.map(infoOf), waiting };
  }

  private holderOf(key: string): HolderHint | undefined {
    const holders = this.table.holders(key);
    if (holders.length === 0) return undefined;
    const [{ owner, mode, token, method, label }] = holders;
    const instanceId = instanceOf(owner);
    if (mode !== 'exclusive') return { instanceId, count: holders.length };
    // Tokens are wall time in µs.
    const since = this.clock.now() - Math.max(0, this.clock.wallTime() - token / 1000);
    return { instanceId, since, method, label };
  }
}
