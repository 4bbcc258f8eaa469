import { describe, expect, it } from '@jest/globals';
import { type TransactionalAdapter, type TransactionHost } from '@nestjs-cls/transactional';
import { LockConfigError } from 'nestjs-redis-lock';
import { withLockScope } from 'nestjs-redis-lock/transactional';

class Connection {
  readonly name = 'connection';
}

type Transaction = Connection | { readonly inner: Connection };

/** An adapter by another author. */
class Adapter implements TransactionalAdapter<Connection, Transaction, { readonly level?: string }> {
  /** A class, which Nest compares by identity. */
  readonly connectionToken = Connection;
  readonly supportsTransactionProxy = false;
  /** Not part of the interface. */
  calls = 0;
  #secret = 'secret';

  get secret(): string {
    return this.#secret;
  }

  optionsFactory(connection: Connection) {
    this.calls += 1;
    this.#secret += '!';
    return {
      own: this.#secret,
      wrapWithTransaction(
        _options: { readonly level?: string },
        fn: () => Promise<unknown>,
        setTx: (tx?: Transaction) => void,
      ): Promise<unknown> {
        setTx({ inner: connection });
        return fn().then((result) => [this.own, result]);
      },
      getFallbackInstance: (): Transaction => connection,
    };
  }
}

describe('withLockScope', () => {
  it('returns the adapter, which makes its options itself, even with private fields', () => {
    const adapter = new Adapter();
    expect(withLockScope(adapter)).toBe(adapter);
    adapter.optionsFactory(new Connection());
    expect(adapter).toMatchObject({ calls: 1, secret: 'secret!' });
  });

  it('keeps what the options return, with `this`, the arguments and the result', async () => {
    const connection = new Connection();
    const options = withLockScope(new Adapter()).optionsFactory(connection);
    expect(options.getFallbackInstance()).toBe(connection);
    expect(Object.hasOwn(options, 'wrapWithNestedTransaction')).toBe(false);
    const seen: unknown[] = [];
    // As the plugin does, which copies the options.
    const merged = { ...options, own: 'merged' };
    const result = await merged.wrapWithTransaction(
      {},
      async () => 'done',
      (tx) => seen.push(tx),
    );
    expect(result).toEqual(['merged', 'done']);
    expect(seen).toEqual([{ inner: connection }]);
  });

  it('keeps the types of the adapter', () => {
    const wrapped = withLockScope(new Adapter());
    const use = (host: TransactionHost<typeof wrapped>): Transaction => host.tx;
    const kept: Adapter = wrapped;
    expect([typeof use, kept]).toEqual(['function', wrapped]);
  });

  it.each([undefined, null, 3, {}, { optionsFactory: 3 }])('refuses what is not an adapter: %p', (adapter) => {
    expect(() => withLockScope(adapter as unknown as Adapter)).toThrow(LockConfigError);
    expect(() => withLockScope(adapter as unknown as Adapter)).toThrow(
      'expected an adapter for @nestjs-cls/transactional',
    );
  });

  it('refuses options that are not allowed', () => {
    const misspelt = { onlost: 'ignore' } as object;
    expect(() => withLockScope(new Adapter(), misspelt)).toThrow(
      'withLockScope(): unknown option onlost; expected onLost.',
    );
    const wrong = { onLost: 'rollback' } as unknown as { onLost: 'throw' };
    expect(() => withLockScope(new Adapter(), wrong)).toThrow(
      'withLockScope(): onLost is "rollback"; expected "throw" or "ignore".',
    );
  });
});
