import type { Clock } from '../../core/clock.js';
import { LockConfigError, LockReplicationError } from '../../core/errors.js';
import type {
  AskReply,
  AskRequest,
  ExtendReply,
  ExtendRequest,
  HandOff,
  HolderInfo,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  StoreListener,
} from '../../core/lock-store.js';
import type { StoreContext } from '../store-context.js';
import { type Confirmed, ReplicaAcks } from './replica-acks.js';
import { notThere } from './replica-errors.js';
import type { ReplicaDemand } from './replica-link.js';

/**
 * A store whose grants and renewals count only when enough replicas know of them. What too few know of is given back by whoever
 * asked, as after any ask that failed; a renewal that too few know of is none, and only the local deadline decides.
 */
export class ReplicatedStore implements LockStore {
  readonly capabilities: StoreCapabilities;
  private readonly clock: Clock;
  private readonly acks: ReplicaAcks;
  private listener: StoreListener | undefined;

  /** @throws LockConfigError where there can be no second connection. */
  constructor(
    private readonly inner: LockStore,
    demand: ReplicaDemand,
    { clock, requestTimeoutMs }: Pick<StoreContext, 'clock' | 'requestTimeoutMs'>,
  ) {
    this.clock = clock;
    this.capabilities = { ...inner.capabilities, replicas: true };
    const link = demand.connect();
    if (link === undefined) {
      throw new LockConfigError(
        'replicas: it takes a second connection; allowed is a URL, options, or a client of ioredis (not a Cluster).',
      );
    }
    this.acks = new ReplicaAcks(link, demand, clock, requestTimeoutMs, (message) => this.listener?.degraded(message));
  }

  listen(listener: StoreListener): () => void {
    this.listener = listener;
    return this.inner.listen({
      instanceId: listener.instanceId,
      handedOver: (handOff) => void this.handedOver(handOff, listener),
      freed: (key) => listener.freed(key),
      listening: () => listener.listening(),
      degraded: (message) => listener.degraded(message),
      disconnected: () => {
        this.acks.reconnect();
        listener.disconnected();
      },
      unreachable: (error) => listener.unreachable(error),
      reachable: () => {
        this.acks.open();
        listener.reachable();
      },
    });
  }

  async ask(request: AskRequest): Promise<AskReply> {
    const sentAt = this.clock.now();
    const reply = await this.inner.ask(request);
    if (reply.status !== 'granted') return reply;
    const [confirmed] = await this.acks.confirm([request]);
    if (confirmed === 'renewed') return reply;
    if (confirmed !== 'lost') throw confirmed;
    // Its lease was over by then: an answer like any that comes too late to be believed in.
    if (this.clock.now() - sentAt >= request.leaseMs) return reply;
    this.acks.misled();
    throw notThere();
  }

  release(request: ReleaseRequest): Promise<boolean> {
    return this.inner.release(request);
  }

  async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    return (await this.acks.confirm(requests)).map(replyOf);
  }

  inspect(key: string): Promise<HolderInfo | null> {
    return this.inner.inspect(key);
  }

  close(): Promise<void> {
    this.acks.close();
    return this.inner.close();
  }

  /** Told only when replicas know of it; otherwise as one that cannot be believed in, so that its owner asks, and hears why. */
  private async handedOver(handOff: HandOff, listener: StoreListener): Promise<void> {
    const [confirmed] = await this.acks.confirm([handOff]);
    listener.handedOver(confirmed === 'renewed' ? handOff : { ...handOff, grantedAt: undefined });
  }
}

function replyOf(confirmed: Confirmed): ExtendReply {
  if (typeof confirmed === 'string') return confirmed;
  return confirmed instanceof LockReplicationError ? 'unreplicated' : 'unknown';
}
