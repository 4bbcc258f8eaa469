import { describe, expect, it } from '@jest/globals';
import { type TransactionalAdapter, type TransactionHost } from '@nestjs-cls/transactional';
import { LockConfigError } from 'nestjs-redis-lock';
import { withLockScope } from 'nestjs-redis-lock/transactional';

class Connection {
  readonly name = 'connection';
}

type Transaction = Connection | { readonly inner: Connection };

/** An adapter with a member of every kind. */
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

  get tokenClass(): typeof Connection {
    return Connection;
  }

  rename(secret: string): this {
    this.#secret = secret;
    return this;
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
  it('returns an adapter with all members of the given one', () => {
    const adapter = new Adapter();
    const wrapped = withLockScope(adapter);
    expect(wrapped).toBeInstanceOf(Adapter);
    expect(wrapped.constructor).toBe(Adapter);
    expect(wrapped.connectionToken).toBe(Connection);
    expect(wrapped.tokenClass).toBe(Connection);
    expect(wrapped.supportsTransactionProxy).toBe(false);
    expect('calls' in wrapped).toBe(true);
    expect(Object.keys(wrapped)).toEqual(Object.keys(adapter));
  });

  it('calls methods, even with private fields, on the given adapter', () => {
    const adapter = new Adapter();
    const wrapped = withLockScope(adapter);
    expect(wrapped.rename('new')).toBe(adapter);
    expect(wrapped.secret).toBe('new');
    expect(Reflect.get(wrapped, 'rename')).toBe(Reflect.get(wrapped, 'rename'));
    wrapped.calls = 7;
    wrapped.optionsFactory(new Connection());
    expect(adapter).toMatchObject({ calls: 8, secret: 'new!' });
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
      'withLockScope(): there is no option onlost; there is onLost.',
    );
    const wrong = { onLost: 'rollback' } as unknown as { onLost: 'throw' };
    expect(() => withLockScope(new Adapter(), wrong)).toThrow(
      'withLockScope(): onLost is "rollback"; expected "throw" or "ignore".',
    );
  });
});
