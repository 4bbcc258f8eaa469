export { quorum, type QuorumOptions } from './quorum.store.js';
export type { QuorumNodeAddress } from './open-nodes.js';
