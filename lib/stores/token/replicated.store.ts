import { runOutside } from '../../common/async-context.js';
import { LockConfigError, LockReplicationError, type LockUnavailableError, messageOf } from '../../common/errors.js';
import { withTimeout } from '../../clock/clock.js';
import type { FurtherConnection, ServerClient } from '../../redis/client-port.js';
import { isOne, wholeMs } from '../../redis/redis-script.js';
import { toError, unavailableBecause, withoutArguments } from '../../redis/redis-errors.js';
import { answer, type ReplyListener } from '../../contract/reply-listener.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  KeyFilter,
  TransferReply,
  TransferRequest,
} from '../../contract/store.js';
import type { ReplicaDemand, StoreContext } from '../store-context.js';
import { scripts } from './scripts.js';
import { TokenStore } from './token.store.js';
import type { LockNames } from './lock-names.js';
import { entryOf } from './wire.js';

/** Why too few replicas know of a lock. Undefined if enough of them do. */
type Failure = LockUnavailableError | undefined;

/** A connection that does not lead to the lock is given this long to find the right server before it is cut. */
const REOPEN_AFTER_MS = 1_000;

/** Errors of WAIT that do not go away by themselves. */
const PERMANENT = /unknown command|NOPERM|not (?:allowed|supported)|unsupported|can't run this command/i;

/**
 * The token store with the option `replicas`. A grant or a renewal counts only after enough replicas have acknowledged
 * it. Otherwise an acquire request fails, and its owner asks again or is released. The outcome of a renewal is unknown
 * then. An owner that was handed a lock asks for it, and that request waits for the replicas, too.
 */
export class ReplicatedStore extends TokenStore {
  /** The second connection to each server, by the client of the first one. */
  private readonly seconds = new Map<ServerClient, ReplicaConnection>();
  private isClosed = false;

  /** @throws LockConfigError if the client cannot be duplicated. */
  constructor(
    private readonly context: StoreContext,
    private readonly demand: ReplicaDemand,
  ) {
    super(context);
    // A node of a cluster opens its second connection when it is needed.
    if (this.names.isCluster || this.connectionFor('') !== undefined) return;
    throw new LockConfigError('replicas: they need a second connection; redis must be duplicable: a URL, for example.');
  }

  override acquire(request: AcquireRequest, listener: ReplyListener<AcquireReply>): void {
    super.acquire(request, this.confirmed(request, 'granted', listener));
  }

  override async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    let replies: readonly ExtendReply[] = [];
    const confirming = Promise.all(requests.map((request, i) => this.confirm(request, () => replies[i] === 'renewed')));
    replies = await super.extend(requests);
    const failures = await confirming;
    return replies.map((reply, i) => (reply === 'renewed' && failures[i] !== undefined ? 'unknown' : reply));
  }

  override transfer(request: TransferRequest, listener: ReplyListener<TransferReply>): void {
    const { key, to: owner } = request;
    // The lease is written again as it is, because a longer one might exceed the limit of the lock.
    const lease = { key, owner, mode: 'exclusive', leaseMs: 1 } as const;
    super.transfer(request, this.confirmed(lease, 'transferred', listener));
  }

  override close(): Promise<void> {
    this.isClosed = true;
    for (const second of this.seconds.values()) second.close();
    return super.close();
  }

  protected override onDisconnected(concerns?: KeyFilter): void {
    super.onDisconnected(concerns);
    // The first connection may lead to another server when it is back. That to a node always leads to the node.
    if (!this.names.isCluster) for (const second of this.seconds.values()) second.reconnect();
  }

  /** Returns a listener that waits for the replicas if the owner has the lock. */
  private confirmed<Reply extends { readonly status: string }>(
    lease: ExtendRequest,
    has: Reply['status'],
    listener: ReplyListener<Reply>,
  ): ReplyListener<Reply> {
    const confirmedReply = async (reply: Reply): Promise<Reply> => {
      const failure = await this.confirm(lease, () => true);
      if (failure !== undefined) throw failure;
      return reply;
    };
    return {
      onReply: (reply) => (reply.status === has ? answer(listener, confirmedReply(reply)) : listener.onReply(reply)),
      onFailed: (error) => listener.onFailed(error),
    };
  }

  private async confirm(request: ExtendRequest, isHeld: () => boolean): Promise<Failure> {
    const second = this.connectionFor(request.key);
    if (second === undefined) return noReply();
    const { clock, requestTimeoutMs } = this.context;
    // It may wait for another batch that gets no reply.
    return withTimeout(clock, requestTimeoutMs, second.confirm(request, isHeld), noReply);
  }

  private connectionFor(key: string): ReplicaConnection | undefined {
    const client = this.topology.nodeOf(key)?.connection.client;
    const known = client && this.seconds.get(client);
    if (client === undefined || known !== undefined || this.isClosed) return known;
    const opened = client.open('replicas');
    if (opened === undefined) return undefined;
    const second = new ReplicaConnection(opened, this.names, this.demand, this.context);
    this.seconds.set(client, second);
    // A node that comes back has another client.
    if (this.names.isCluster) client.watch({ end: () => this.seconds.delete(client) && second.close() });
    return second;
  }
}

/** A lock whose replicas are waited for. */
interface Confirmation {
  readonly request: ExtendRequest;
  /** Returns whether the first connection has found the lock by now. */
  readonly isHeld: () => boolean;
  readonly resolve: (failure: Failure) => void;
}

/**
 * A second connection, because WAIT blocks all later commands. It writes the leases again and sends WAIT behind them,
 * because WAIT counts only what was written over its own connection. One batch is unanswered at a time. Requests that
 * come before its reply are in the next one.
 *
 * @internal Exported for tests.
 */
export class ReplicaConnection {
  private waiting: Confirmation[] = [];
  private isSending = false;
  private isClosed = false;
  /** When the connection last became ready or was lost. */
  private changedAt = -Infinity;

  constructor(
    private readonly connection: FurtherConnection,
    private readonly names: Pick<LockNames, 'keysOf'>,
    private readonly demand: ReplicaDemand,
    private readonly times: Pick<StoreContext, 'clock' | 'requestTimeoutMs'>,
  ) {
    const onChange = (): void => {
      this.changedAt = times.clock.now();
    };
    // After a loss, requests may fail at once. Without `close`, each of them would cut the attempt to connect again.
    connection.watch({ ready: onChange, close: onChange });
  }

  confirm(request: ExtendRequest, isHeld: () => boolean): Promise<Failure> {
    return new Promise((resolve) => {
      this.waiting.push({ request, isHeld, resolve });
      if (!this.isSending) void runOutside(() => this.sendAll());
    });
  }

  reconnect(): void {
    if (!this.isClosed && this.connection.status !== 'wait') this.connection.disconnect(true);
  }

  close(): void {
    this.isClosed = true;
    this.connection.disconnect();
  }

  private async sendAll(): Promise<void> {
    this.isSending = true;
    while (this.waiting.length > 0) {
      const batch = this.waiting.splice(0);
      const replies = await this.send(batch);
      for (const [i, { resolve }] of batch.entries()) resolve(this.failureOf(replies[i], replies.at(-1)));
      const isElsewhere = batch.some(({ isHeld }, i) => leadsElsewhere(replies[i], isHeld));
      if (isElsewhere && this.times.clock.now() - this.changedAt > REOPEN_AFTER_MS) this.reconnect();
    }
    this.isSending = false;
  }

  /** Returns a reply or an error for each lock, and then that of WAIT. Returns nothing if they come too late. */
  private async send(batch: readonly Confirmation[]): Promise<readonly unknown[]> {
    const { connection, demand, times } = this;
    if (this.isClosed) return [];
    if (connection.status === 'wait' || connection.status === 'end') connection.connect();
    const { socket } = connection;
    socket?.cork();
    const sent = [
      // As a whole: a script with an unknown digest would be sent again behind WAIT.
      ...batch.map(({ request }) => {
        const { lock, holders } = this.names.keysOf(request.key);
        const keys = request.mode === 'exclusive' ? [lock] : [lock, holders];
        return connection.run('eval', scripts.extend.lua, keys, [entryOf(request), wholeMs(request.leaseMs)]);
      }),
      connection.send('wait', [], [String(demand.min), String(demand.timeoutMs)]),
    ];
    socket?.uncork();
    const replies: Promise<readonly unknown[]> = Promise.all(sent.map((reply) => reply.catch(toError)));
    return withTimeout(times.clock, times.requestTimeoutMs, replies, () => []);
  }

  private failureOf(extended: unknown, waited: unknown): Failure {
    if (extended === undefined) return noReply();
    if (extended instanceof Error) return unavailableBecause(extended, 'a lock');
    if (!isOne(extended)) return new LockReplicationError('The lock was gone before replicas knew of it.');
    if (waited instanceof Error) {
      const message = messageOf(waited);
      const advice = 'connect to Redis itself, allow its user WAIT, or leave the `replicas` option out';
      const details = { cause: withoutArguments(waited), permanent: PERMANENT.test(message) };
      return new LockReplicationError(`Replicas cannot be waited for (${message}): ${advice}.`, details);
    }
    const { min, timeoutMs } = this.demand;
    if (Number(waited) >= min) return undefined;
    const wanted = `${min} (replicas.min) within ${timeoutMs} ms (replicas.timeoutMs)`;
    return new LockReplicationError(`Too few replicas know of the lock: ${Number(waited)} of ${wanted}.`);
  }
}

/** Returns whether the connection that brought this reply may lead to a server that is not the store's. */
function leadsElsewhere(extended: unknown, isHeld: () => boolean): boolean {
  if (extended === undefined || extended instanceof Error) return true;
  // A lock that the first connection does not find either is lost. A cut would make other confirmations fail.
  return !isOne(extended) && isHeld();
}

function noReply(): LockUnavailableError {
  return unavailableBecause(new Error('there was no reply on the connection that waits for replicas'), 'a lock');
}
