import type { StoreName } from '../workload/orders.js';
import { MastersTopology } from './masters.js';
import type { Topology, TopologyOptions } from './topology.js';

/** What each store keeps its locks on. */
const topologies: Record<StoreName, (options: TopologyOptions) => Promise<Topology>> = {
  token: (options) => MastersTopology.start(1, options),
  timestamp: (options) => MastersTopology.start(1, options),
  redisson: (options) => MastersTopology.start(1, options),
  quorum: (options) => MastersTopology.start(3, options),
};

export function startTopology(store: StoreName, options: TopologyOptions): Promise<Topology> {
  return topologies[store](options);
}

export type { LockServer, Topology, TopologyOptions } from './topology.js';
