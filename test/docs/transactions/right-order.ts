import { Injectable } from '@nestjs/common';
import { Transactional, TransactionHost } from '@nestjs-cls/transactional';
import type { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { Locked, LockService, resource } from 'nestjs-redis-lock';
import { Column, DataSource, Entity, PrimaryColumn } from 'typeorm';

@Entity()
export class Goods {
  @PrimaryColumn({ type: 'integer' }) id!: number;
  @Column({ type: 'integer' }) left!: number;
}

@Injectable()
export class StockService {
  constructor(
    private readonly host: TransactionHost<TransactionalAdapterTypeOrm>,
    private readonly dataSource: DataSource,
    private readonly locks: LockService,
  ) {}

  @Locked('goods:<id>') // above: the lock covers the whole transaction
  @Transactional()
  async sell(id: number): Promise<void> {
    const goods = await this.host.tx.findOneByOrFail(Goods, { id });
    await this.host.tx.update(Goods, id, { left: goods.left - 1 });
  }

  restock(id: number, amount: number): Promise<void> {
    return this.locks.using(resource`goods:${id}`, () =>
      this.dataSource.transaction(async (manager) => {
        const goods = await manager.findOneByOrFail(Goods, { id });
        await manager.update(Goods, id, { left: goods.left + amount });
      }),
    );
  }
}
