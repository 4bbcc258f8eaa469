import { Injectable } from '@nestjs/common';
import { Redis } from 'ioredis';
import { LockService, resource } from 'nestjs-redis-lock';
import { RedisFence } from 'nestjs-redis-lock/fence';

const APPEND = `return redis.call('RPUSH', KEYS[1], ARGV[1])`;

@Injectable()
export class InvoiceNumbers {
  constructor(
    private readonly locks: LockService,
    private readonly redis: Redis,
  ) {}

  /** Gives each invoice the next number of its year. A failed `print` uses no number. */
  next(year: number, print: (number: number) => Promise<string>): Promise<number> {
    const numbers = resource`invoices:${year}`;
    const fence = new RedisFence(this.redis, numbers);
    return this.locks.using(numbers, { onLost: 'ignore' }, async ({ fencingToken }) => {
      await fence.open(fencingToken); // before the first read
      const number = (await this.redis.llen(numbers)) + 1;
      const invoice = await print(number);
      await fence.write(fencingToken, { lua: APPEND, keys: [numbers], args: [invoice] });
      return number;
    });
  }
}
