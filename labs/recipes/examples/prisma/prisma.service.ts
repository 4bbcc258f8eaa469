import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { PrismaPg } from '@prisma/adapter-pg';
import { LockService, resource } from 'nestjs-redis-lock';
import { PrismaClient } from './generated/client.js';

@Injectable()
export class PrismaService extends PrismaClient implements OnApplicationShutdown {
  constructor() {
    super({
      adapter: new PrismaPg({ connectionString: process.env['DATABASE_URL'] }),
      transactionOptions: { maxWait: 20_000, timeout: 20_000 }, // longer than `waitMs` of the locks
    });
  }

  onApplicationShutdown(): Promise<void> {
    return this.$disconnect();
  }
}

@Injectable()
export class StockService {
  constructor(
    private readonly prisma: PrismaService,
    private readonly locks: LockService,
  ) {}

  /** Lock first, then begin: callers that wait have no connection yet. */
  sell(id: number): Promise<void> {
    return this.locks.using(resource`goods:${id}`, () =>
      this.prisma.$transaction(async (tx) => {
        const { left } = await tx.goods.findUniqueOrThrow({ where: { id } });
        await tx.goods.update({ where: { id }, data: { left: left - 1 } });
      }),
    );
  }

  /** A lock inside of the transaction is kept until the commit by the scope around it. */
  move(from: number, to: number): Promise<void> {
    return this.locks.scope((scope) =>
      this.prisma.$transaction(async (tx) => {
        await this.locks.using([`goods:${from}`, `goods:${to}`], async () => {
          const source = await tx.goods.findUniqueOrThrow({ where: { id: from } });
          const target = await tx.goods.findUniqueOrThrow({ where: { id: to } });
          await tx.goods.update({ where: { id: from }, data: { left: source.left - 1 } });
          await tx.goods.update({ where: { id: to }, data: { left: target.left + 1 } });
        });
        scope.assertHeld(); // rolls back if a lock was lost
      }),
    );
  }
}
