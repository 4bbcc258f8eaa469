import { Injectable } from '@nestjs/common';
import { Locked, LockScope, LockService } from 'nestjs-redis-lock';

@Injectable()
export class StockService {
  private readonly left = new Map<string, number>();

  @Locked('goods:<id>') // alone, the lock would end with this method
  async take(id: string): Promise<number> {
    const left = (this.left.get(id) ?? 10) - 1;
    this.left.set(id, left);
    return left;
  }
}

@Injectable()
export class OrderService {
  constructor(
    private readonly stock: StockService,
    private readonly locks: LockService,
  ) {}

  @LockScope() // keeps the locks of both goods until the method has settled
  async order(first: string, second: string): Promise<readonly number[]> {
    return [await this.stock.take(first), await this.stock.take(second)];
  }

  move(id: string, commit: () => Promise<void>): Promise<void> {
    return this.locks.scope(async (scope) => {
      await this.stock.take(id);
      scope.assertHeld(); // throws LockLostError if a lock that the scope keeps is lost
      await commit();
    });
  }
}
