import type { TransactionalAdapter } from '@nestjs-cls/transactional';
import { checkOptions, checkValue, hasMethods, oneOf, type OptionRules } from '../common/check-options.js';
import { declareTransactionScopes, type LockScope, runInLockScope, ScopeHold } from '../engine/lock-scope.js';

/**
 * The options of {@link withLockScope}.
 *
 * @publicApi
 */
export interface LockScopeAdapterOptions {
  /**
   * What happens if a lock that the transaction used is lost before the commit. `throw`: the transaction is rolled
   * back, and the call rejects with `LockLostError`. `ignore`: the transaction is committed.
   *
   * If the lock is lost while the database commits, `throw` rejects although the transaction may be committed.
   *
   * @default 'throw'
   */
  readonly onLost?: 'throw' | 'ignore' | undefined;
}

type Transact = (options: unknown, fn: Work, ...rest: unknown[]) => unknown;
type Work = (...args: unknown[]) => Promise<unknown>;

/** The members of an adapter's options that open a transaction, or a savepoint in one. */
const TRANSACTIONS = ['wrapWithTransaction', 'wrapWithNestedTransaction'] as const;

const PLACE = 'withLockScope()';
const RULES: OptionRules<LockScopeAdapterOptions> = { onLost: oneOf('throw', 'ignore') };

/**
 * Makes the transactions of an adapter for `@nestjs-cls/transactional` lock scopes. A lock that is released in a
 * transaction is kept until the transaction commits or is rolled back, so that no other holder reads old rows.
 *
 * ```ts
 * new ClsPluginTransactional({ adapter: withLockScope(new TransactionalAdapterTypeOrm({ dataSourceToken })) });
 * ```
 *
 * The outermost transaction decides: a transaction with `REQUIRES_NEW` or `NESTED` inside another one keeps its locks
 * until the outer one has ended. Changes `optionsFactory` of the adapter, and returns the adapter.
 *
 * Under REPEATABLE READ and SERIALIZABLE, a transaction that read before it was granted the lock still reads old rows
 * afterwards. Acquire the lock first, and then begin the transaction.
 *
 * The module then no longer checks for decorators above `@Locked`, because they may be `@Transactional()`.
 *
 * @param adapter any adapter for `@nestjs-cls/transactional`, even one by other authors.
 * @throws {LockConfigError} if the adapter has no `optionsFactory`, or if an option is not allowed.
 *
 * @publicApi
 */
export function withLockScope<A extends TransactionalAdapter<C, T, O>, C, T, O>(
  adapter: A & TransactionalAdapter<C, T, O>,
  options: LockScopeAdapterOptions = {},
): A {
  checkValue(PLACE, 'the adapter', adapter, {
    allowed: 'an adapter for @nestjs-cls/transactional, which has the method optionsFactory',
    fits: (value) => hasMethods(value, ['optionsFactory']),
  });
  const { onLost = 'throw' } = checkOptions(PLACE, options, RULES);
  declareTransactionScopes();
  const original = adapter.optionsFactory;
  const optionsFactory = (...args: unknown[]): object => {
    const made = { ...(Reflect.apply(original, adapter, args) as object) } as Record<string, unknown>;
    for (const name of TRANSACTIONS) {
      const transact = made[name];
      if (typeof transact === 'function') made[name] = inLockScope(transact as Transact, onLost);
    }
    return made;
  };
  Object.defineProperty(adapter, 'optionsFactory', { value: optionsFactory, configurable: true });
  return adapter;
}

/** Returns a function that opens the transaction in a lock scope. */
function inLockScope(transact: Transact, onLost: 'throw' | 'ignore'): Transact {
  return function (this: unknown, options, fn, ...rest) {
    return runInLockScope({ onLost }, (scope) => {
      const work: Work = async (...args) => {
        const result = await fn(...args);
        // The database rolls back work that ends with an error. After the commit, it would be too late.
        if (onLost === 'throw') await checkHeld(scope);
        return result;
      };
      return Reflect.apply(transact, this, [options, work, ...rest]);
    });
  };
}

/** @throws LockLostError if the scope has lost a lock. First reads the replies that have arrived. */
async function checkHeld(scope: LockScope): Promise<void> {
  if (scope instanceof ScopeHold) await scope.expire();
  scope.assertHeld();
}
