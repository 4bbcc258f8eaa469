import assert from 'node:assert/strict';
import { after, before, beforeEach, it } from 'node:test';
import { Inject, Injectable, Module } from '@nestjs/common';
import { type INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ClsPluginTransactional, Transactional, TransactionHost } from '@nestjs-cls/transactional';
import { TransactionalAdapterPrisma } from '@nestjs-cls/transactional-adapter-prisma';
import { ClsModule } from 'nestjs-cls';
import { Locked, LockService, RedisLockModule } from 'nestjs-redis-lock';
import { SqlFence, StaleFenceError } from 'nestjs-redis-lock/fence';
import { withLockScope } from 'nestjs-redis-lock/transactional';
import { PrismaService, StockService } from '../examples/prisma/prisma.service.js';
import { times } from './support.js';

type Adapter = TransactionalAdapterPrisma<PrismaService>;

@Injectable()
class ShelfService {
  constructor(@Inject(TransactionHost) private readonly host: TransactionHost<Adapter>) {}

  @Transactional() // the wrong order, which the scope of the adapter mends
  @Locked('goods:<id>')
  async sell(id: number): Promise<void> {
    const { left } = await this.host.tx.goods.findUniqueOrThrow({ where: { id } });
    await this.host.tx.goods.update({ where: { id }, data: { left: left - 1 } });
  }
}

@Module({ providers: [PrismaService], exports: [PrismaService] })
class PrismaModule {}

@Module({
  imports: [
    PrismaModule,
    RedisLockModule.forRoot({ redis: process.env['REDIS_URL'], waitMs: 15_000 }),
    ClsModule.forRoot({
      plugins: [
        new ClsPluginTransactional({
          imports: [PrismaModule],
          adapter: withLockScope(new TransactionalAdapterPrisma({ prismaInjectionToken: PrismaService })),
        }),
      ],
    }),
  ],
  providers: [StockService, ShelfService],
})
class AppModule {}

let app: INestApplicationContext;
let prisma: PrismaService;

before(async () => {
  app = await NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false });
  prisma = app.get(PrismaService);
  await prisma.$executeRawUnsafe('DROP TABLE IF EXISTS "Goods"');
  await prisma.$executeRawUnsafe('CREATE TABLE "Goods" (id INTEGER PRIMARY KEY, "left" INTEGER NOT NULL)');
});
beforeEach(async () => {
  await prisma.goods.deleteMany();
  await prisma.goods.createMany({
    data: [
      { id: 1, left: 100 },
      { id: 2, left: 100 },
    ],
  });
});
after(() => app?.close());

/** A lock inside of the transaction is kept until the commit by the scope around it. */
function move(from: number, to: number): Promise<void> {
  const locks = app.get(LockService);
  return locks.scope((scope) =>
    prisma.$transaction(async (tx) => {
      await locks.using([`goods:${from}`, `goods:${to}`], async () => {
        const source = await tx.goods.findUniqueOrThrow({ where: { id: from } });
        const target = await tx.goods.findUniqueOrThrow({ where: { id: to } });
        await tx.goods.update({ where: { id: from }, data: { left: source.left - 1 } });
        await tx.goods.update({ where: { id: to }, data: { left: target.left + 1 } });
      });
      scope.assertHeld();
    }),
  );
}

const left = async () => (await prisma.goods.findMany({ orderBy: { id: 'asc' } })).map((goods) => goods.left);

it('loses no update, whether the lock or the transaction comes first', async () => {
  const stock = app.get(StockService);
  // Fewer at a time than the ten connections of the pool: callers of move() wait for their lock with a connection.
  for (let round = 0; round < 5; round += 1) {
    await Promise.all([times(3, () => stock.sell(1)), times(3, () => move(1, 2))]);
  }
  assert.deepEqual(await left(), [100 - 15 - 15, 100 + 15]);
});

it('loses no update with the adapter of @nestjs-cls/transactional in a lock scope', async () => {
  const shelf = app.get(ShelfService);
  for (let round = 0; round < 5; round += 1) await times(4, () => shelf.sell(2));
  assert.deepEqual(await left(), [100, 80]);
});

it('refuses a late holder by the fence', async () => {
  const fence = new SqlFence('postgres');
  await prisma.$executeRawUnsafe(fence.statements.createTable);
  const run = (sql: string, params: (string | number)[]) => prisma.$queryRawUnsafe<unknown[]>(sql, ...params);
  const locks = app.get(LockService);
  const tokenOf = () => locks.using('goods:3', ({ fencingToken }) => fencingToken);
  const [late, next] = [await tokenOf(), await tokenOf()];
  await fence.open(run, 'goods:3', late);
  await fence.open(run, 'goods:3', next);
  await assert.rejects(async () => fence.write(run, 'goods:3', late), StaleFenceError);
  await fence.write(run, 'goods:3', next);
});
