/** The property of `globalThis` that says that every transaction of this process is a lock scope. */
export const TRANSACTIONS_ARE_SCOPES = Symbol.for('nestjs-redis-lock:transactions-are-scopes');

/**
 * Declares that every transaction of this process is a lock scope: a lock that ends inside a transaction is released
 * after the commit. `@Transactional()` above `@Locked` is then correct, and the module does not warn about it.
 */
export function declareTransactionScopes(): void {
  Reflect.set(globalThis, TRANSACTIONS_ARE_SCOPES, true);
}

/** Returns whether transactions were declared to be lock scopes. */
export function transactionsAreScopes(): boolean {
  return Reflect.get(globalThis, TRANSACTIONS_ARE_SCOPES) === true;
}
