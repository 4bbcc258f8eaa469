import { Injectable } from '@nestjs/common';
import { Redis } from 'ioredis';
import { LockService, resource } from 'nestjs-redis-lock';
import { RedisFence } from 'nestjs-redis-lock/fence';

const SET_LEFT = `return redis.call('HSET', KEYS[1], 'left', ARGV[1])`;

@Injectable()
export class StockService {
  constructor(
    private readonly locks: LockService,
    private readonly redis: Redis,
  ) {}

  sell(id: number, pay: () => Promise<void>): Promise<number> {
    const goods = resource`goods:${id}`;
    const fence = new RedisFence(this.redis, goods);
    return this.locks.using(goods, { onLost: 'ignore' }, async ({ fencingToken }) => {
      await fence.open(fencingToken); // before the first read
      const left = Number(await this.redis.hget(goods, 'left')) - 1;
      await pay(); // may take longer than the lease
      await fence.write(fencingToken, { lua: SET_LEFT, keys: [goods], args: [left] });
      return left;
    });
  }
}
