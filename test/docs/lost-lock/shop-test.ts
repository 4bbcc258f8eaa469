import { type LostLockReport, survivesLostLock, withLocks } from 'nestjs-redis-lock/testing';
import type { SafeShop, Shop } from './shop.js';

export async function neverOversells(Kind: typeof Shop | typeof SafeShop): Promise<LostLockReport> {
  const stock = { left: 1 };
  const shop = withLocks(new Kind(stock, { charge: async () => undefined }));
  return survivesLostLock(
    () => shop.buy(300),
    () => stock.left >= 0,
    { setup: () => void (stock.left = 1) },
  );
}
