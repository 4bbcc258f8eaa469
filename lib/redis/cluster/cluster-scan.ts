import type { RedisConnection } from '../redis-connection.js';
import { listingFailed, scanKeys, type ScanRequest, type ScanTimes, withinTime } from '../key-scan.js';
import type { ClusterNode } from './cluster-node.js';
import { SLOTS } from './hash-slot.js';

/** The pause between two looks at a cluster that is not whole. */
const PAUSE_MS = 25;

/** The nodes to scan. */
export interface ScannedNodes {
  /** Returns the known masters, by address. Undefined for one without a connection. */
  masterNodes(): ReadonlyMap<string, ClusterNode | undefined>;
  refresh(): void;
}

/** What a node says of itself: its id, its epoch, which rises with every slot that it takes over, and its slots. */
interface NodeView {
  readonly text: string;
  readonly slots: number;
  /** Why its keys cannot be listed now. */
  readonly problem: string | undefined;
}

/** The masters that have all slots, and what each says of itself. */
type WholeCluster = readonly (readonly [node: ClusterNode, view: NodeView])[];

/**
 * Yields the keys of all masters, one after the other. Keys that a slot takes along to a node that was scanned before
 * would be missed, so every master has to have the same slots before and after.
 *
 * @throws LockUnavailableError if a master cannot be reached, or if slots have an owner other than before.
 */
export async function* scanCluster(
  nodes: ScannedNodes,
  request: ScanRequest,
  times: ScanTimes,
): AsyncGenerator<readonly string[]> {
  const before = await wholeCluster(nodes, times);
  for (const [{ connection }] of before) yield* scanKeys(connection, request);
  const after = await viewsOf(before.map(([node]) => node));
  for (const [i, [node, { text }]] of before.entries()) {
    if (after[i].text === text) continue;
    nodes.refresh();
    const why = after[i].problem ?? 'its slots have changed';
    throw listingFailed(new Error(`${node.address}: ${why}, and locks that moved during the scan may be missing`));
  }
}

/** Waits until masters are known that have all slots, at most `requestTimeoutMs`. */
async function wholeCluster(nodes: ScannedNodes, times: ScanTimes): Promise<WholeCluster> {
  const giveUpAt = times.clock.now() + times.requestTimeoutMs;
  for (;;) {
    const found = await lookAt(nodes.masterNodes());
    if (typeof found !== 'string') return found;
    if (times.clock.now() + PAUSE_MS >= giveUpAt) throw listingFailed(new Error(found));
    nodes.refresh();
    await new Promise<void>((resolve) => times.clock.schedule(PAUSE_MS, resolve));
  }
}

/** Returns the masters if they have all slots between them, otherwise what is in the way. */
async function lookAt(masters: ReadonlyMap<string, ClusterNode | undefined>): Promise<WholeCluster | string> {
  const nodes: ClusterNode[] = [];
  for (const [address, node] of masters) {
    if (node === undefined) return `there is no connection to ${address}`;
    nodes.push(node);
  }
  const views = await viewsOf(nodes);
  for (const [i, { problem }] of views.entries()) if (problem !== undefined) return `${nodes[i].address}: ${problem}`;
  const slots = views.reduce((sum, view) => sum + view.slots, 0);
  if (slots !== SLOTS) return `the known masters have ${slots} of ${SLOTS} slots`;
  return nodes.map((node, i) => [node, views[i]] as const);
}

function viewsOf(nodes: readonly ClusterNode[]): Promise<readonly NodeView[]> {
  return Promise.all(nodes.map(({ connection }) => viewOf(connection)));
}

async function viewOf(connection: RedisConnection): Promise<NodeView> {
  const reply = await withinTime(connection.client.send('cluster', [], ['NODES']), connection);
  return toView(String(reply));
}

/** Reads the node's own line: `<id> <address> myself,master <master> <ping> <pong> <epoch> <link> <slots> …`. */
function toView(nodes: string): NodeView {
  const own = nodes.split('\n').find((line) => /^\S+ \S+ \S*\bmyself\b/.test(line));
  const [id = '', , flags = '', , , , epoch = '', , ...ranges] = own?.trim().split(' ') ?? [];
  const owned = ranges.filter((range) => !range.startsWith('['));
  const text = [id, flags, epoch, ...ranges].join(' ');
  return { text, slots: owned.reduce((sum, range) => sum + sizeOf(range), 0), problem: problemOf(flags, ranges) };
}

function problemOf(flags: string, ranges: readonly string[]): string | undefined {
  if (!flags.split(',').includes('master')) return 'it is no longer a master';
  return ranges.some((range) => range.startsWith('[')) ? 'it is moving a slot' : undefined;
}

function sizeOf(range: string): number {
  const [first, last = first] = range.split('-').map(Number);
  return last - first + 1;
}
