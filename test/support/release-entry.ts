// The present code with what a frozen release has in one file.
export * from '../../lib/index.js';
export { quorum } from '../../lib/stores/quorum/index.js';
