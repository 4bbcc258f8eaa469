import { messageOf } from '../../common/errors.js';
import { secondsOf } from '../../common/format-value.js';
import type { Clock } from '../../clock/clock.js';
import type { StoreListener } from '../../contract/store.js';
import { noMajority } from './poll.js';
import type { QuorumNode } from './quorum-node.js';

/**
 * Returns what is called when a node is up, or is seen to be down. It reports when a majority is lost and when it is
 * back, and by one line each the nodes that are lost or back meanwhile.
 */
export function healthReport(nodes: readonly QuorumNode[], clock: Clock, listener: StoreListener): () => void {
  const { length } = nodes;
  /** When each unreachable node was reported, by its name. */
  const reportedAt = new Map<string, number>();
  let wasUp = true;
  return () => {
    const serving = nodes.filter(({ isReady, outage }) => isReady && outage === undefined).length;
    for (const { name, outage } of nodes) {
      const since = reportedAt.get(name);
      if (outage === undefined && since !== undefined) {
        reportedAt.delete(name);
        listener.onRecovered(`${name} can be reached again after ${secondsOf(clock.now() - since)}.`);
      } else if (outage !== undefined && since === undefined && serving * 2 > length) {
        reportedAt.set(name, clock.now());
        const others = `locks continue with ${serving} of ${length} nodes`;
        listener.onDegraded(`${name} cannot be reached, ${others}: ${messageOf(outage)}`);
      }
    }
    const isUp = nodes.filter(({ outage }) => outage !== undefined).length * 2 < length;
    const outcomes = nodes.map(({ isReady, outage }) => outage ?? (isReady || undefined));
    if (!isUp) listener.onDown(noMajority('No majority of the nodes can be reached', nodes, outcomes));
    else if (!wasUp) listener.onUp();
    wasUp = isUp;
  };
}
