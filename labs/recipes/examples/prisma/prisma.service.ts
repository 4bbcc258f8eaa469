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
}
