import { Injectable } from '@nestjs/common';
import { Propagation, Transactional, TransactionHost } from '@nestjs-cls/transactional';
import { DataSource, type EntityManager } from 'typeorm';
import { Locked, LockService, resource } from 'nestjs-redis-lock';
import { sellOne } from './sell.js';
import type { TypeOrmAdapter } from './typeorm-app.js';

/** Runs in the transaction of its caller. */
@Injectable()
export class Stock {
  /** Called after each read of the rows. */
  onRead: () => void = () => undefined;

  constructor(private readonly host: TransactionHost<TypeOrmAdapter>) {}

  @Locked('goods:<id>', { waitMs: 60_000 })
  async sell(id: number, manager: EntityManager = this.host.tx): Promise<void> {
    await this.sellUnlocked(id, manager);
  }

  sellUnlocked(id: number, manager: EntityManager = this.host.tx): Promise<void> {
    return sellOne(
      (sql, params) => manager.query(sql, params),
      id,
      () => this.onRead(),
    );
  }
}

/** The orders in which a lock and a transaction can begin and end. */
@Injectable()
export class Shop {
  constructor(
    private readonly stock: Stock,
    private readonly host: TransactionHost<TypeOrmAdapter>,
    private readonly dataSource: DataSource,
    private readonly locks: LockService,
  ) {}

  @Locked('goods:<id>', { waitMs: 60_000 })
  @Transactional()
  async lockedAbove(id: number): Promise<void> {
    await this.stock.sellUnlocked(id);
  }

  @Transactional()
  @Locked('goods:<id>', { waitMs: 60_000 })
  async transactionAbove(id: number): Promise<void> {
    await this.stock.sellUnlocked(id);
  }

  @Transactional()
  async outer(id: number): Promise<void> {
    await this.stock.sell(id);
  }

  async insideUsing(id: number): Promise<void> {
    await this.locks.using(resource`goods:${id}`, { waitMs: 60_000 }, () =>
      this.host.withTransaction(() => this.stock.sellUnlocked(id)),
    );
  }

  @Transactional()
  async inPropagation(propagation: Propagation, id: number): Promise<void> {
    await this.host.withTransaction(propagation, () => this.stock.sell(id));
  }

  async inDataSource(id: number): Promise<void> {
    await this.dataSource.transaction((manager) => this.stock.sell(id, manager));
  }

  async inScope(id: number): Promise<void> {
    await this.locks.scope(() => this.dataSource.transaction((manager) => this.stock.sell(id, manager)));
  }
}
