import { Module } from '@nestjs/common';
import { ClsPluginTransactional } from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { ClsModule } from 'nestjs-cls';
import { DataSource, type EntitySubscriberInterface } from 'typeorm';
import { withLockScope } from 'nestjs-redis-lock/transactional';
import { deferred } from '../../support/async.js';
import { type AppSetUp, startApp, type TestApp } from '../support/app.js';

export type TypeOrmAdapter = TransactionalAdapterTypeOrm;

/** Connects to PostgreSQL and creates the table `goods` with the row 1. */
export async function openDataSource(url: string): Promise<DataSource> {
  const dataSource = new DataSource({ type: 'postgres', url });
  await dataSource.initialize();
  await dataSource.query('CREATE TABLE IF NOT EXISTS goods (id INTEGER PRIMARY KEY, sold INTEGER NOT NULL)');
  return dataSource;
}

/** Sets the number of goods sold to 0. */
export async function restock(dataSource: DataSource): Promise<void> {
  await dataSource.query('DELETE FROM goods');
  await dataSource.query('INSERT INTO goods VALUES (1, 0)');
}

/** Reads how many goods are sold, outside of all transactions. */
export async function soldIn(dataSource: DataSource): Promise<number> {
  const [{ sold }] = await dataSource.query<[{ sold: number }]>('SELECT sold FROM goods WHERE id = 1');
  return sold;
}

export interface TypeOrmSetUp extends AppSetUp {
  readonly dataSource: DataSource;
  /** Whether `withLockScope` wraps the adapter. */
  readonly scoped: boolean;
}

/** Starts an application whose `@Transactional` methods run on the data source. */
export function startTypeOrmApp({ dataSource, scoped, ...setUp }: TypeOrmSetUp): Promise<TestApp> {
  @Module({ providers: [{ provide: DataSource, useValue: dataSource }], exports: [DataSource] })
  class DataModule {}
  const plain = new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource });
  const adapter = scoped ? withLockScope(plain) : plain;
  const plugins = [new ClsPluginTransactional({ imports: [DataModule], adapter })];
  const imports = [DataModule, ClsModule.forRoot({ plugins }), ...(setUp.imports ?? [])];
  return startApp({ ...setUp, imports });
}

/** Stops the next commit of a data source before it is sent, until the test resumes it. */
export class StoppedCommit {
  private readonly reached = deferred();
  private readonly goOn = deferred();

  constructor(dataSource: DataSource) {
    const { reached, goOn } = this;
    const subscriber: EntitySubscriberInterface = {
      async beforeTransactionCommit() {
        dataSource.subscribers.splice(dataSource.subscribers.indexOf(subscriber), 1);
        reached.resolve();
        await goOn.promise;
      },
    };
    dataSource.subscribers.push(subscriber);
  }

  /** Resolves when all work of the transaction is done and the commit is due. */
  due(): Promise<void> {
    return this.reached.promise;
  }

  resume(): void {
    this.goOn.resolve();
  }
}
