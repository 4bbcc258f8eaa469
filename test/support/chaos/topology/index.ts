import type { StoreName } from '../workload/orders.js';
import { ClusterTopology } from './cluster.js';
import { MastersTopology } from './masters.js';
import { PartitionTopology, SentinelTopology } from './replicas.js';
import type { Topology, TopologyOptions } from './topology.js';

/** The number of masters of each store. */
const MASTERS: Record<StoreName, number> = { token: 1, timestamp: 1, redisson: 1, quorum: 3 };

/** Topologies of faults that need more than masters. */
const replicated = {
  sentinel: () => SentinelTopology.start(),
  cluster: () => ClusterTopology.start(),
  partition: () => PartitionTopology.start(),
} satisfies Record<string, () => Promise<Topology>>;

export type ReplicatedTopologyName = keyof typeof replicated;

/** @param on undefined: the masters of the store. */
export function startTopology(
  store: StoreName,
  on: ReplicatedTopologyName | undefined,
  options: TopologyOptions,
): Promise<Topology> {
  return on === undefined ? MastersTopology.start(MASTERS[store], options) : replicated[on]();
}

export { ClusterTopology } from './cluster.js';
export { PartitionTopology, SentinelTopology } from './replicas.js';
export type { LockServer, Topology, TopologyOptions } from './topology.js';
