import type { AwaitedLockInfo, HeldLockInfo, LockHolder, LockWaiter } from '../../lib/lock-info.js';

/** Returns a holder of a lock. */
export function holderOf(identity: string | undefined, other: Partial<LockHolder> = {}): LockHolder {
  const holder = identity === undefined ? 'value of another system' : `${identity}-AbCdEfGhIjKlMnOp`;
  return { holder, identity, isOwn: false, expiresInMs: 29_400, fencingToken: undefined, ...other };
}

/** Returns a waiter of a lock. */
export function waiterOf(identity: string, permits?: number): LockWaiter {
  const mode = permits === undefined ? 'exclusive' : 'shared';
  return { waiter: `${identity}-AbCdEfGhIjKlMnOp`, identity, isOwn: false, mode, permits };
}

/** Returns a lock that `api-1` holds alone, but for what is given. */
export function heldView(resource: string, other: Partial<HeldLockInfo> = {}, heldForMs?: number): HeldLockInfo {
  return {
    resource,
    key: `{lock_${resource}}`,
    isHeld: true,
    ...holderOf('api-1'),
    mode: 'exclusive',
    permits: undefined,
    others: [],
    waiting: [],
    heldForMs,
    ...other,
  };
}

/** Returns a lock that nobody holds and `api-2` waits for. */
export function awaitedView(resource: string): AwaitedLockInfo {
  return {
    resource,
    key: `{lock_${resource}}`,
    isHeld: false,
    holder: undefined,
    identity: undefined,
    isOwn: false,
    expiresInMs: 0,
    fencingToken: undefined,
    mode: undefined,
    permits: undefined,
    others: [],
    waiting: [waiterOf('api-2')],
  };
}
