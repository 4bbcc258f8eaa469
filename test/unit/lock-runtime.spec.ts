import { describe, expect, it } from '@jest/globals';
import { memory, type StoreFactory } from 'nestjs-redis-lock';
import { LockRuntime } from '../../lib/lock-runtime.js';
import type { ClusterClient, ServerClient } from '../../lib/redis/client-port.js';
import type { LockStore } from '../../lib/contract/store.js';

/** Returns a store in memory that opens a client, and some of whose methods are replaced. */
function withClient(clients: (ServerClient | ClusterClient)[], replaced: Partial<LockStore>): StoreFactory {
  return (context) => {
    clients.push(context.open('redis://127.0.0.1:1'));
    return Object.assign(memory()(context), replaced);
  };
}

it('refuses a store that was not called, and says so', () => {
  const store = memory as unknown as StoreFactory;
  expect(() => LockRuntime.start({ store })).toThrow('store: it is a function that makes a store; call it');
});

describe('the end of a module instance', () => {
  it('closes its connections if the store fails to close', async () => {
    const replaced = { close: () => Promise.reject(new Error('it fails')) };
    const clients: (ServerClient | ClusterClient)[] = [];
    const runtime = LockRuntime.start({ store: withClient(clients, replaced), checks: 'off' });
    await expect(runtime.close()).rejects.toThrow('it fails');
    expect(clients.map(({ status }) => status)).toEqual(['end']);
  });
});
