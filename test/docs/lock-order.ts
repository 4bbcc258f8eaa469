import { Locked, type LockService } from 'nestjs-redis-lock';
import { createTestLocks, resetLockOrder, withLocks } from 'nestjs-redis-lock/testing';

export class Shop {
  constructor(private readonly locks: LockService) {}

  @Locked('goods:<id>')
  async buy(id: number): Promise<void> {
    await this.locks.using(`order:${id}`, async () => undefined);
  }
}

export class Refunds {
  constructor(private readonly locks: LockService) {}

  @Locked('order:<id>')
  async run(id: number): Promise<void> {
    await this.locks.using(`goods:${id}`, async () => undefined);
  }
}

export async function takesLocksInOneOrder(): Promise<void> {
  resetLockOrder(); // forgets what earlier tests did
  const locks = createTestLocks();
  await withLocks(new Shop(locks), locks).buy(300);
  await withLocks(new Refunds(locks), locks).run(1); // throws LockOrderError
}
