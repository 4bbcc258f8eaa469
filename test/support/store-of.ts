import type { LockEngine } from '../../lib/core/lock-engine.js';
import { RejectingStore } from '../../lib/core/store/rejecting-store.js';
import type { LockStore } from '../../lib/core/store/lock-store.js';

/** Returns the store of a module instance. The engine wraps it, so that a store that throws rejects. */
export function storeOf({ store }: Pick<LockEngine, 'store'>): LockStore {
  return store instanceof RejectingStore ? store['inner'] : store;
}
