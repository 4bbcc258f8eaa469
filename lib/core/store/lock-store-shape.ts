import { hasMethods, type OptionRule } from '../checks/check-options.js';
import type { LockStore } from './lock-store.js';

const METHODS = ['acquire', 'release', 'extend', 'inspect', 'listen', 'close'] as const;

/** Returns whether a value has the methods of a `LockStore`, and capabilities that the engine can use. */
export function isLockStore(value: unknown): value is LockStore {
  if (!hasMethods(value, METHODS)) return false;
  const { capabilities } = value as Partial<LockStore>;
  if (typeof capabilities !== 'object' || capabilities === null) return false;
  const { modes = [], resolutionMs } = capabilities;
  return Array.isArray(modes) && typeof resolutionMs === 'number' && resolutionMs > 0;
}

/** Allows what {@link isLockStore} recognizes. */
export const lockStoreRule: OptionRule = {
  allowed: `a LockStore: an object with ${METHODS.map((name) => `${name}()`).join(', ')} and \`capabilities\``,
  fits: isLockStore,
};
