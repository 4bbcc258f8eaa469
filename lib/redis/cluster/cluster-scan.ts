import { listingFailed, scanKeys, type ScanRequest, withinTime } from '../key-scan.js';
import type { ClusterNode, ClusterTopology } from './cluster-topology.js';
import { SLOTS } from '../slots.js';

/** The pause between two looks at a cluster that is not whole. */
const PAUSE_MS = 25;

/** What a node says of itself: its id, its epoch, which rises with every slot that it takes over, and its slots. */
interface NodeView {
  readonly node: ClusterNode;
  readonly text: string;
  /** How many slots it has. */
  readonly slots: number;
  /** Why its keys cannot be listed now. */
  readonly problem: string | undefined;
}

/**
 * Yields the keys of all masters, one after the other. Keys that a slot takes along to a node that was scanned before
 * would be missed, so every master has to have the same slots before and after.
 *
 * @throws LockUnavailableError if a master cannot be reached, or if slots have an owner other than before.
 */
export async function* scanCluster(cluster: ClusterTopology, request: ScanRequest): AsyncGenerator<readonly string[]> {
  const before = await wholeCluster(cluster);
  for (const { node } of before) yield* scanKeys(node.connection, request);
  for (const { node, text } of before) {
    const after = await viewOf(node);
    if (after.text === text) continue;
    cluster.refresh();
    const why = after.problem ?? 'its slots have changed';
    throw listingFailed(new Error(`${node.address}: ${why}, and locks that moved during the scan may be missing`));
  }
}

/** Waits until masters are known that have all slots, at most `requestTimeoutMs`. */
async function wholeCluster(cluster: ClusterTopology): Promise<readonly NodeView[]> {
  const { clock, requestTimeoutMs } = cluster;
  const giveUpAt = clock.now() + requestTimeoutMs;
  for (;;) {
    const masters = [...cluster.masterNodes().values()].filter((node) => node !== undefined);
    const views = await Promise.all(masters.map(viewOf));
    const slots = views.reduce((sum, view) => sum + view.slots, 0);
    const other = views.find(({ problem }) => problem !== undefined);
    if (other === undefined && slots === SLOTS) return views;
    if (clock.now() + PAUSE_MS >= giveUpAt) {
      const problem = other && `${other.node.address}: ${other.problem}`;
      throw listingFailed(new Error(problem ?? `the masters with a connection have ${slots} of ${SLOTS} slots`));
    }
    cluster.refresh();
    await new Promise<void>((resolve) => clock.schedule(PAUSE_MS, resolve));
  }
}

/** Reads the node's own line: `<id> <address> myself,master <master> <ping> <pong> <epoch> <link> <slots> …`. */
async function viewOf(node: ClusterNode): Promise<NodeView> {
  const { connection } = node;
  const nodes = String(await withinTime(connection.client.send('cluster', [], ['NODES']), connection));
  const own = nodes.split('\n').find((line) => /^\S+ \S+ \S*\bmyself\b/.test(line));
  const [id = '', , flags = '', , , , epoch = '', , ...ranges] = own?.trim().split(' ') ?? [];
  const isMoving = ranges.some((range) => range.startsWith('['));
  const problem = isMoving ? 'it is moving a slot' : undefined;
  return {
    node,
    text: [id, flags, epoch, ...ranges].join(' '),
    slots: isMoving ? 0 : ranges.reduce((sum, range) => sum + sizeOf(range), 0),
    problem: flags.split(',').includes('master') ? problem : 'it is no longer a master',
  };
}

function sizeOf(range: string): number {
  const [first, last = first] = range.split('-').map(Number);
  return last - first + 1;
}
