import { Injectable } from '@nestjs/common';
import { LockService, resource } from 'nestjs-redis-lock';
import { DataSource } from 'typeorm';
import { Goods } from './right-order.js';

@Injectable()
export class TransferService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly locks: LockService,
  ) {}

  move(from: number, to: number): Promise<void> {
    return this.locks.scope((scope) =>
      this.dataSource.transaction(async (manager) => {
        await this.locks.using([resource`goods:${from}`, resource`goods:${to}`], async () => {
          await manager.decrement(Goods, { id: from }, 'left', 1);
          await manager.increment(Goods, { id: to }, 'left', 1);
        });
        scope.assertHeld(); // rolls back if a lock was lost
      }),
    );
  }
}
