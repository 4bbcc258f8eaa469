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
}
