import type { Clock } from '../../core/time/clock.js';
import { messageOf } from '../../core/errors.js';
import { secondsOf } from '../../core/format-value.js';
import { Refusals, type StoreOperation } from '../../core/store/refusals.js';
import type { StoreListener } from '../contract.js';
import { noMajority } from './poll.js';
import type { NodeListener, QuorumNode } from './quorum-node.js';

type QuorumListener = Pick<StoreListener, 'onDegraded' | 'onRecovered' | 'onReconnected' | 'onDown' | 'onUp'>;

/**
 * Reports to the engine when a majority is lost and when it is back, and a node that is lost or back meanwhile by one
 * line.
 */
export class QuorumHealth implements NodeListener {
  /** When each unreachable node was reported, by its name. */
  private readonly reportedAt = new Map<string, number>();
  private readonly refusals: Refusals;
  private wasUp = true;

  constructor(
    private readonly nodes: readonly QuorumNode[],
    private readonly clock: Pick<Clock, 'now'>,
    private readonly listener: QuorumListener,
  ) {
    this.refusals = new Refusals(
      (message) => listener.onDegraded(message),
      () => clock.now(),
    );
  }

  onDown(): void {
    if (this.down.length * 2 < this.nodes.length) return this.reportMinority();
    this.wasUp = false;
    const outcomes = this.nodes.map(({ isReady, outage }) => outage ?? (isReady || undefined));
    this.listener.onDown(noMajority('A lock', this.nodes, outcomes));
  }

  onUp({ name }: QuorumNode): void {
    const since = this.reportedAt.get(name);
    if (this.reportedAt.delete(name))
      this.listener.onRecovered(`${name} can be reached again after ${secondsOf(this.clock.now() - (since ?? 0))}.`);
    if (this.down.length * 2 > this.nodes.length) return;
    if (!this.wasUp) this.listener.onUp();
    this.wasUp = true;
    this.reportMinority();
  }

  onReconnected(): void {
    this.listener.onReconnected();
  }

  onFailed({ name }: QuorumNode, operation: StoreOperation, key: string, error: unknown): void {
    this.refusals.onFailed(operation, key, error, name);
  }

  private get down(): readonly QuorumNode[] {
    return this.nodes.filter(({ outage }) => outage !== undefined);
  }

  /** Reports each unreachable node once per outage, but not before a majority is known to be reachable. */
  private reportMinority(): void {
    const serving = this.nodes.filter(({ isReady, outage }) => isReady && outage === undefined).length;
    if (serving * 2 < this.nodes.length) return;
    for (const { name, outage } of this.down) {
      if (this.reportedAt.has(name)) continue;
      this.reportedAt.set(name, this.clock.now());
      const others = `${serving} of ${this.nodes.length} nodes`;
      this.listener.onDegraded(`${name} cannot be reached, locks continue with ${others}: ${messageOf(outage)}`);
    }
  }
}
