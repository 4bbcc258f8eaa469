import { messageOf } from '../../common/errors.js';
import type { StoreListener } from '../../contract/store.js';
import { noMajority } from './poll.js';
import type { QuorumNode } from './quorum-node.js';

/**
 * Returns what is called when a node is up, or is seen to be down. It reports when a majority is lost and when it is
 * back, and by one line each the nodes that are lost or back meanwhile.
 */
export function healthReport(nodes: readonly QuorumNode[], listener: StoreListener): () => void {
  const { length } = nodes;
  /** The names of the unreachable nodes that were reported. */
  const reported = new Set<string>();
  return () => {
    const serving = nodes.filter(({ isReady, outage }) => isReady && outage === undefined).length;
    for (const { name, outage } of nodes) {
      if (outage === undefined) {
        if (reported.delete(name)) listener.onRecovered(`${name} can be reached again.`);
      } else if (!reported.has(name) && serving * 2 > length) {
        reported.add(name);
        const others = `locks continue with ${serving} of ${length} nodes`;
        listener.onDegraded(`${name} cannot be reached, ${others}: ${messageOf(outage)}`);
      }
    }
    const isUp = nodes.filter(({ outage }) => outage !== undefined).length * 2 < length;
    const outcomes = nodes.map(({ isReady, outage }) => outage ?? (isReady || undefined));
    if (!isUp) listener.onDown(noMajority('No majority of the nodes can be reached', nodes, outcomes));
    else listener.onUp();
  };
}
