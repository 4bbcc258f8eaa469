import { messageOf } from '../../core/errors.js';
import type { StoreListener } from '../../core/store/lock-store.js';
import type { NodeListener, QuorumNode } from './quorum-node.js';
import { noMajority } from './quorum-errors.js';

/** Tells the engine of a majority that is gone and comes back; of a single node only that the others do without it. */
export class QuorumHealth implements NodeListener {
  private readonly toldOf = new Set<QuorumNode>();
  private wasReachable = true;

  constructor(
    private readonly nodes: readonly QuorumNode[],
    private readonly listener: Pick<StoreListener, 'onDegraded' | 'onUnreachable' | 'onReachable'>,
  ) {}

  down(): void {
    const outages = this.nodes.map(({ outage }) => outage);
    const down = outages.filter((outage) => outage !== undefined);
    if (down.length * 2 < this.nodes.length) return this.tellOfSome();
    this.wasReachable = false;
    this.listener.onUnreachable(noMajority('No majority of the nodes can be reached', this.nodes, outages));
  }

  up(node: QuorumNode): void {
    this.toldOf.delete(node);
    const down = this.nodes.filter(({ outage }) => outage !== undefined);
    if (down.length * 2 > this.nodes.length) return;
    if (!this.wasReachable) this.listener.onReachable();
    this.wasReachable = true;
    this.tellOfSome();
  }

  /** Once for each time that a node is gone; not while it is unknown whether there is a majority. */
  private tellOfSome(): void {
    const serving = this.nodes.filter(({ known, outage }) => known && outage === undefined).length;
    if (serving * 2 < this.nodes.length) return;
    for (const node of this.nodes) {
      const { name, outage } = node;
      if (outage === undefined || this.toldOf.has(node)) continue;
      this.toldOf.add(node);
      const others = `${serving} of ${this.nodes.length} nodes`;
      this.listener.onDegraded(`${name} cannot be reached, locks go on with ${others}: ${messageOf(outage)}`);
    }
  }
}
