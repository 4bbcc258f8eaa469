import { createTestBench, withLocks } from 'nestjs-redis-lock/testing';
import { Checkout } from './bench-shop.js';

export async function isBusy(): Promise<string> {
  const bench = createTestBench();
  const checkout = withLocks(new Checkout({ save: async () => undefined }), bench.locks);
  await bench.occupy('order:7'); // another process holds the lock
  return checkout.pay(7); // throws LockTimeoutError immediately
}

export async function isLost(): Promise<string> {
  const bench = createTestBench();
  const checkout = withLocks(
    new Checkout({ save: async () => bench.lose('order:7') }),
    bench.locks,
  );
  return checkout.pay(7); // throws LockLostError
}

export async function isWithoutRedis(): Promise<[result: string, history: string[]]> {
  const bench = createTestBench();
  const checkout = withLocks(new Checkout({ save: async () => undefined }), bench.locks);
  bench.unavailable();
  const result = await checkout.pay(7); // undefined, because of onUnavailable
  return [result, bench.history().map(({ type, outcome }) => outcome ?? type)];
}
