import type { Clock, Timer } from '../../../core/time/clock.js';
import { redirectionIn, unavailableBecause } from '../../../redis/redis-errors.js';
import type { ClusterNode } from '../../../redis/cluster/cluster-node.js';
import type { ShardListener } from '../../../redis/cluster/slot-map.js';
import { decode, type HandoffListener, type HandoffChannels, probeScript } from './handoff-channel.js';
import type { RedisNode } from '../../../redis/topology.js';
import { ChannelSubscription } from './channel-subscription.js';

/** Where the locks are. */
interface Places {
  keysOf(key: string): readonly string[];
  handoffArgs(key: string): readonly string[];
  nodeOf(key: string): ClusterNode | undefined;
  refresh(): void;
}

/** Longer than who waits in a queue leaves between two asks. */
const LINGER_MS = 10_000;

/** A channel on which nothing was heard for this long is proven again. */
const SILENCE_MS = 3_000;

const LONGEST_DOUBT_MS = 30_000;

const ECHO = '';

/**
 * Hears of hand-offs in a cluster: on a sharded channel for each hash tag that somebody waits under here, at the node that has
 * its slot, until nobody has waited for a while. A channel counts as open only when an echo was heard on it that the slot's
 * node sent: then that node counts us when it hands a lock over, and whoever is not counted is passed over as dead. Where a slot
 * has gone to another node, its channel follows.
 */
export class ShardedHandoffChannels implements HandoffChannels, ShardListener {
  private readonly subscriptions = new Map<string, ChannelSubscription>();
  private sweeper: Timer | undefined;
  private closed = false;

  constructor(
    private readonly instanceId: string,
    private readonly places: Places,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
    private readonly listener: HandoffListener,
  ) {}

  hears(key: string, server: RedisNode): boolean {
    const ear = this.subscriptions.get(this.channelOf(key));
    if (ear?.state !== 'open' || ear.node !== server) return false;
    const now = this.clock.now();
    ear.usedAt = now;
    if (now - ear.heardAt >= SILENCE_MS && ear.doubt === undefined) void this.prove(ear, ear.node);
    return true;
  }

  open(key: string): void {
    if (this.closed) return;
    const ear = this.earOf(key);
    ear.usedAt = this.clock.now();
    const node = this.places.nodeOf(key);
    if (node === undefined || (node === ear.node && !ear.resting)) return;
    this.move(ear, node);
  }

  close(): void {
    this.closed = true;
    this.sweeper?.cancel();
    for (const ear of this.subscriptions.values()) this.drop(ear);
  }

  linked(node: ClusterNode): void {
    for (const ear of this.earsAt(node)) if (ear.state === 'waiting') void this.subscribe(ear, node);
  }

  lost(node: ClusterNode): void {
    for (const ear of this.earsAt(node)) ear.become('waiting');
  }

  message(node: ClusterNode, channel: string, message: string): void {
    if (message !== ECHO) this.listener.onHandoff(decode(message), node.connection);
    const ear = this.subscriptions.get(channel);
    if (ear?.node !== node) return;
    ear.heardAt = this.clock.now();
    if (message !== ECHO || (ear.state !== 'proving' && ear.state !== 'open')) return;
    const opened = ear.state === 'proving';
    ear.doubts = 0;
    ear.become('open');
    if (opened) this.listener.onSubscribed((key) => this.channelOf(key) === channel);
  }

  refused(why: string): void {
    this.listener.onRefused(why);
  }

  /** ioredis tells that the node has taken a channel away, but not which. */
  moved(node: ClusterNode): void {
    for (const ear of this.earsAt(node)) if (ear.state === 'open') void this.prove(ear, node);
  }

  rerouted(): void {
    for (const ear of this.subscriptions.values()) {
      const node = ear.node && this.places.nodeOf(ear.key);
      // Another node, or the same one over another connection.
      if (node !== undefined && (node !== ear.node || ear.state === 'moved')) this.move(ear, node);
    }
  }

  private channelOf(key: string): string {
    return this.places.handoffArgs(key)[0] + this.instanceId;
  }

  private earOf(key: string): ChannelSubscription {
    const channel = this.channelOf(key);
    const known = this.subscriptions.get(channel);
    if (known !== undefined) return known;
    const ear = new ChannelSubscription(channel, key, this.clock.now());
    this.subscriptions.set(channel, ear);
    this.sweepLater();
    return ear;
  }

  private earsAt(node: ClusterNode): readonly ChannelSubscription[] {
    return [...this.subscriptions.values()].filter((ear) => ear.node === node);
  }

  private move(ear: ChannelSubscription, node: ClusterNode): void {
    if (ear.node !== node) this.leave(ear);
    ear.node = node;
    ear.become('waiting');
    node.subscribe();
    // Otherwise it is subscribed as soon as there is a connection.
    if (node.subscriber.linked) void this.subscribe(ear, node);
  }

  private async subscribe(ear: ChannelSubscription, node: ClusterNode): Promise<void> {
    ear.become('subscribing');
    try {
      await node.subscriber.subscribe(ear.channel);
    } catch (error) {
      return this.failed(ear, node, error);
    }
    if (ear.node !== node || ear.state !== 'subscribing') return;
    ear.become('proving');
    await this.prove(ear, node);
  }

  /** Lets the slot's node send an echo, and count who hears it. */
  private async prove(ear: ChannelSubscription, node: ClusterNode): Promise<void> {
    const delayMs = Math.min(this.requestTimeoutMs * 2 ** ear.doubts, LONGEST_DOUBT_MS);
    ear.settle();
    ear.doubt = this.clock.schedule(delayMs, () => this.unheard(ear, node), true);
    try {
      const [, , queue] = this.places.keysOf(ear.key);
      const listeners = await probeScript.run(node.connection, [queue], [ear.channel, '1']);
      if (listeners > 0) return;
      // Taken away, while its slot was elsewhere for a moment.
      if (ear.node === node && ear.state === 'open') this.move(ear, node);
      else throw new Error('nobody is subscribed');
    } catch (error) {
      this.failed(ear, node, error);
    }
  }

  private failed(ear: ChannelSubscription, node: ClusterNode, error: unknown): void {
    if (ear.node !== node || ear.state === 'waiting') return;
    const { permanent, message } = unavailableBecause(error, 'sharded pub/sub');
    const redirection = redirectionIn(error);
    ear.become(redirection?.kind === 'moved' ? 'moved' : 'idle');
    if (redirection !== undefined) this.places.refresh();
    if (!permanent) return;
    ear.become('refused');
    this.listener.onRefused(message);
  }

  private unheard(ear: ChannelSubscription, { connection, subscriber }: ClusterNode): void {
    ear.doubts += 1;
    ear.become('waiting');
    // While there is no connection to send the echo over, nothing can be said.
    if (connection.ready) this.refused('an echo was not heard: its connection may lead to another server');
    subscriber.reconnect();
  }

  private sweepLater(): void {
    this.sweeper ??= this.clock.schedule(LINGER_MS, () => this.sweep(), true);
  }

  private sweep(): void {
    this.sweeper = undefined;
    const now = this.clock.now();
    for (const ear of this.subscriptions.values()) if (now - ear.usedAt >= LINGER_MS) this.drop(ear);
    if (this.subscriptions.size > 0) this.sweepLater();
  }

  private drop(ear: ChannelSubscription): void {
    ear.settle();
    this.subscriptions.delete(ear.channel);
    this.leave(ear);
  }

  /** The connection ends with its last channel. */
  private leave(ear: ChannelSubscription): void {
    const { node } = ear;
    ear.node = undefined;
    if (node === undefined) return;
    if (this.earsAt(node).length === 0) node.subscriber.close();
    else node.subscriber.unsubscribe(ear.channel);
  }
}
