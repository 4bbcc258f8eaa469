import { EntitySchema, MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { LockService, resource } from 'nestjs-redis-lock';

export class Goods {
  id!: number;
  left!: number;
}

export const goodsSchema = new EntitySchema({
  class: Goods,
  properties: { id: { type: 'integer', primary: true }, left: { type: 'integer' } },
});

@Injectable()
export class StockService {
  constructor(
    private readonly orm: MikroORM,
    private readonly locks: LockService,
  ) {}

  /** Lock first, then begin. The fork has an identity map of its own, so it reads what the last holder wrote. */
  sell(id: number): Promise<void> {
    return this.locks.using(resource`goods:${id}`, () =>
      this.orm.em.fork().transactional(async (em) => {
        const goods = await em.findOneOrFail(Goods, { id });
        goods.left -= 1;
      }),
    );
  }

  /** A lock inside of the transaction is kept until the commit by the scope around it. */
  move(from: number, to: number): Promise<void> {
    return this.locks.scope((scope) =>
      this.orm.em.fork().transactional(async (em) => {
        await this.locks.using([`goods:${from}`, `goods:${to}`], async () => {
          const [source, target] = [await em.findOneOrFail(Goods, from), await em.findOneOrFail(Goods, to)];
          source.left -= 1;
          target.left += 1;
        });
        await em.flush();
        scope.assertHeld(); // rolls back if a lock was lost
      }),
    );
  }
}
