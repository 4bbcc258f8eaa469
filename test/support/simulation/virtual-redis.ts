import { hashTag } from '../../../lib/core/keys/resource-key.js';
import { slotOfTag } from '../../../lib/redis/cluster/hash-slot.js';
import { instanceOf } from '../../../lib/core/store/instance-id.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  StoreListener,
} from '../../../lib/core/store/lock-store.js';
import { LockTable, type TableHandoff } from '../../../lib/stores/memory/lock-table.js';
import type { VirtualClock } from './virtual-clock.js';

/** The server's time for each kind of request, in microseconds. */
export interface Costs {
  readonly acquireUs: number;
  readonly joinUs: number;
  readonly repeatUs: number;
  readonly extendUs: number;
  readonly releaseUs: number;
  /** A release that hands the lock off. */
  readonly handoffUs: number;
  /** Each sharer that a release hands the lock to. */
  readonly sharerUs: number;
}

/** One way through the network takes this long, and up to a half more. */
export const HOP_MS = 0.25;

const SLOTS = 16_384;

/** One server. It runs one request at a time, in the order in which they arrive, by the steps of the scripts. */
export class VirtualNode {
  requests = 0;
  /** Repeated requests of owners that are in a queue. */
  repeats = 0;
  busyMs = 0;
  /** The most entries that its queues have had. */
  longestQueue = 0;
  /** By the second of their arrival. */
  readonly requestsBySecond: number[] = [];
  private readonly queued = new Set<string>();
  private readonly table: LockTable;
  private freeAt = 0;
  private startsAt = 0;
  private handoffs: TableHandoff[] = [];

  constructor(
    private readonly clock: VirtualClock,
    private readonly costs: Costs,
    private readonly listeners: ReadonlyMap<string, StoreListener>,
  ) {
    this.table = new LockTable(
      {
        now: () => this.startsAt,
        wallTime: () => clock.wallTime() + this.startsAt - clock.now(),
        isSubscribed: (instanceId) => listeners.has(instanceId),
        onHandoff: (handoff) => this.handoffs.push(handoff),
      },
      1,
    );
  }

  acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { owner } = request;
    const { acquireUs, joinUs, repeatUs } = this.costs;
    return this.run(
      () => this.table.acquire(request),
      (reply) => {
        if (reply.status !== 'held' || !reply.queued) return acquireUs;
        const isRepeated = this.queued.has(owner);
        if (isRepeated) this.repeats += 1;
        this.queued.add(owner);
        this.longestQueue = Math.max(this.longestQueue, this.queued.size);
        return isRepeated ? repeatUs : joinUs;
      },
    );
  }

  release(request: ReleaseRequest): Promise<boolean> {
    this.queued.delete(request.owner);
    return this.run(
      () => this.table.release(request),
      () => this.costs.releaseUs,
    );
  }

  extend(request: ExtendRequest): Promise<ExtendReply> {
    return this.run(
      () => this.table.extend(request),
      () => this.costs.extendUs,
    );
  }

  /** Runs a request when it has arrived and all earlier ones are done. Resolves when its reply arrives. */
  private async run<Reply>(execute: () => Reply, costOf: (reply: Reply) => number): Promise<Reply> {
    const { clock } = this;
    await clock.sleep(this.hop());
    this.startsAt = Math.max(clock.now(), this.freeAt);
    this.handoffs = [];
    const reply = execute();
    const second = Math.floor(clock.now() / 1_000);
    this.requests += 1;
    this.requestsBySecond[second] = (this.requestsBySecond[second] ?? 0) + 1;
    this.freeAt = this.startsAt + costOf(reply) / 1_000;
    for (const handoff of this.handoffs) this.deliver(handoff);
    this.busyMs += this.freeAt - this.startsAt;
    await clock.sleep(this.freeAt - clock.now() + this.hop());
    return reply;
  }

  private deliver({ key, owner, granted, ...grant }: TableHandoff): void {
    const { handoffUs, releaseUs, sharerUs } = this.costs;
    this.queued.delete(owner);
    this.freeAt += (grant.mode === 'exclusive' ? handoffUs - releaseUs : sharerUs) / 1_000;
    const grantedAt = granted ? this.startsAt : undefined;
    const listener = this.listeners.get(instanceOf(owner));
    const delayMs = this.freeAt - this.clock.now() + this.hop();
    this.clock.schedule(delayMs, () => listener?.onHandoff({ keys: [key], owner, ...grant, grantedAt }));
  }

  private hop(): number {
    return HOP_MS * (1 + this.clock.random() / 2);
  }
}

/** Some masters, each with an equal part of the slots, and the connections of all instances. */
export class VirtualRedis {
  readonly nodes: readonly VirtualNode[];
  private readonly listeners = new Map<string, StoreListener>();

  constructor(clock: VirtualClock, costs: Costs, masters: number) {
    this.nodes = Array.from({ length: masters }, () => new VirtualNode(clock, costs, this.listeners));
  }

  /** Returns the store of one module instance. */
  connect(): LockStore {
    return new VirtualStore(this.listeners, (key) => this.nodeOf(key));
  }

  private nodeOf(key: string): VirtualNode {
    return this.nodes[Math.floor((slotOfTag(hashTag(key)) * this.nodes.length) / SLOTS)];
  }
}

class VirtualStore implements LockStore {
  readonly capabilities: StoreCapabilities = {
    name: 'virtual',
    queue: true,
    fencing: true,
    idempotentAcquire: true,
    modes: ['exclusive', 'shared'],
    resolutionMs: 1,
  };

  constructor(
    private readonly listeners: Map<string, StoreListener>,
    private readonly nodeOf: (key: string) => VirtualNode,
  ) {}

  listen(listener: StoreListener): () => void {
    this.listeners.set(listener.instanceId, listener);
    return () => this.listeners.delete(listener.instanceId);
  }

  acquire(request: AcquireRequest): Promise<AcquireReply> {
    return this.nodeOf(request.keys[0]).acquire(request);
  }

  release(request: ReleaseRequest): Promise<boolean> {
    return this.nodeOf(request.keys[0]).release(request);
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    return Promise.all(requests.map((request) => this.nodeOf(request.keys[0]).extend(request)));
  }

  inspect(): Promise<null> {
    return Promise.resolve(null);
  }

  ping(): Promise<never> {
    throw new Error('nobody pings in a simulation');
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
