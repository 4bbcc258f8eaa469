import { type Clock, withTimeout } from '../../core/time/clock.js';
import { LockConfigError } from '../../core/errors.js';
import type { StoreListener } from '../../core/store/lock-store.js';
import type { RedisCluster } from './cluster-client.js';
import { type Redirection, redirectionIn, toError, unavailableBecause } from '../redis-errors.js';
import type { RedisScript } from '../redis-script.js';
import { ClusterNode } from './cluster-node.js';
import { SlotMap, type ShardListener } from './slot-map.js';
import { hashTag } from '../../core/keys/resource-key.js';
import { slotOfTag } from './hash-slot.js';
import type { Call, RedisNode, Topology } from '../topology.js';

/** Between two tries of what the cluster cannot do just now. */
const PAUSE_MS = 25;

/** Nodes that disagree send a request round in a circle, for a moment. */
const MOST_HOPS = 4;

type Send<T> = (server: RedisNode) => Promise<T>;

/** Each key on the node of a cluster that has its slot. */
export class ClusterTopology implements Topology {
  private readonly slotMap: SlotMap;
  /** What the client puts before keys, which then decide the slot. */
  readonly prefix: string;
  /** Where the clients of the nodes do not do that. */
  private readonly ownPrefix: string;

  /** @throws LockConfigError where nodes have another keyPrefix than the cluster. */
  constructor(
    cluster: RedisCluster,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
  ) {
    this.prefix = cluster.options?.keyPrefix ?? '';
    const ofNodes = cluster.options?.redisOptions?.keyPrefix ?? '';
    if (ofNodes !== '' && ofNodes !== this.prefix) {
      throw new LockConfigError('redis: keyPrefix and redisOptions.keyPrefix of a Cluster are two; allowed is one.');
    }
    this.ownPrefix = ofNodes === '' ? this.prefix : '';
    this.slotMap = new SlotMap(cluster, clock, requestTimeoutMs, (key) => this.slotOf(key));
  }

  keyOf(key: string): string {
    return this.ownPrefix + key;
  }

  /** The part of the key that decides its slot, with what the client puts before it. */
  tagOf(key: string): string {
    return hashTag(this.prefix + key);
  }

  /** Goes where the cluster sends it, and tries again, for as long as one request may take, what cannot be done just now. */
  async run<T>(key: string, send: Send<T>): Promise<T> {
    const slot = this.slotOf(key);
    const giveUpAt = this.clock.now() + this.requestTimeoutMs;
    let server: RedisNode | undefined = this.slotMap.nodeOf(slot);
    for (let hops = 1; ; hops++) {
      const failure = server === undefined ? unconnected(slot) : await this.tried(server, send);
      if (!(failure instanceof Failure)) return failure;
      const { error } = failure;
      const redirection = redirectionIn(error);
      if (redirection === undefined) this.slotMap.refresh();
      if (redirection === undefined && server !== undefined) throw error;
      const from = server instanceof ClusterNode ? server : undefined;
      server = redirection && this.slotMap.follow(slot, redirection, from);
      if (server !== undefined && hops < MOST_HOPS) continue;
      if (this.clock.now() + PAUSE_MS >= giveUpAt) throw unavailableBecause(error, 'a lock');
      await this.pause();
      server = this.slotMap.nodeOf(slot);
    }
  }

  async runAll<Reply>(script: RedisScript<Reply>, calls: readonly Call[]): Promise<readonly (Reply | Error)[]> {
    const byNode = this.byNode(calls, ({ key }) => key);
    const replies = new Map<Call, Reply | Error>();
    const groups = [...byNode].map(async ([node, group]) => {
      const answers = node === undefined ? [] : await this.answersOf(node, script, group);
      const settled = group.map(async (call, i) => replies.set(call, await this.settled(script, call, answers[i])));
      await Promise.all(settled);
    });
    await Promise.all(groups);
    return calls.map((call) => replies.get(call) as Reply | Error);
  }

  cancel(owner: string): boolean {
    return this.slotMap.cancel(owner);
  }

  /** Begins to watch the connections, and to tell of their sharded channels; answers how to stop. */
  watch(listener: StoreListener, shards: ShardListener): () => void {
    return this.slotMap.listen(listener, shards);
  }

  /** The node that has the key; undefined while there is no connection to it. */
  nodeOf(key: string): ClusterNode | undefined {
    return this.slotMap.nodeOf(this.slotOf(key));
  }

  /** Those of one node together; `undefined` has those whose node there is no connection to. */
  byNode<T>(items: readonly T[], keyOf: (item: T) => string): Map<ClusterNode | undefined, T[]> {
    const byNode = new Map<ClusterNode | undefined, T[]>();
    for (const item of items) {
      const node = this.nodeOf(keyOf(item));
      const others = byNode.get(node);
      if (others === undefined) byNode.set(node, [item]);
      else others.push(item);
    }
    return byNode;
  }

  /** The node that a node's answer names. */
  meant(key: string, redirection: Redirection, from: ClusterNode | undefined): ClusterNode | undefined {
    return this.slotMap.meant(this.slotOf(key), redirection, from);
  }

  serverOf(key: string): string | undefined {
    return this.slotMap.addressOf(this.slotOf(key));
  }

  /** Takes in what that node has answered to something else than a request of `run`. */
  follow(key: string, redirection: Redirection): void {
    this.slotMap.follow(this.slotOf(key), redirection, this.nodeOf(key));
  }

  /** Looks, in the background, where the keys are. */
  refresh(): void {
    this.slotMap.refresh();
  }

  private slotOf(key: string): number {
    return slotOfTag(this.tagOf(key));
  }

  private async tried<T>(server: RedisNode, send: Send<T>): Promise<T | Failure> {
    try {
      return await (server instanceof ClusterNode ? server.awaited(send(server)) : send(server));
    } catch (error) {
      return new Failure(error);
    }
  }

  private answersOf<Reply>(node: ClusterNode, script: RedisScript<Reply>, calls: readonly Call[]) {
    const answers = node.awaited(script.runAll(node.connection, calls));
    return this.inTime<(Reply | Error)[]>(answers, () => calls.map(unanswered));
  }

  /** What one of many was answered, at the node to which it was sent on, or which there was not. */
  private settled<Reply>(script: RedisScript<Reply>, call: Call, answer: Reply | Error | undefined) {
    const final = answer !== undefined && redirectionIn(answer) === undefined;
    if (final && answer instanceof Error) this.slotMap.refresh();
    if (final) return answer;
    const { keys, args } = call;
    const elsewhere = this.run(call.key, ({ connection }) => script.run(connection, keys, args)).catch(toError);
    return this.inTime<Reply | Error>(elsewhere, unanswered);
  }

  /** A node that hangs may have lost its slots by now: nothing waits for it longer than a request may take. */
  private inTime<T>(answer: Promise<T>, otherwise: () => T): Promise<T> {
    return withTimeout(this.clock, this.requestTimeoutMs, answer, otherwise);
  }

  private pause(): Promise<void> {
    return new Promise((resolve) => this.clock.schedule(PAUSE_MS, resolve));
  }
}

class Failure {
  constructor(readonly error: unknown) {}
}

function unanswered(): Error {
  return new Error('no answer');
}

function unconnected(slot: number): Failure {
  return new Failure(new Error(`there is no connection to the node that has slot ${slot}`));
}
