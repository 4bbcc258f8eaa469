import { Controller, Get, HttpException, HttpStatus, Injectable, Ip } from '@nestjs/common';
import { Redis } from 'ioredis';
import { Locked } from 'nestjs-redis-lock';

const tooMany = (): never => {
  throw new HttpException('Too many requests', HttpStatus.TOO_MANY_REQUESTS);
};

@Controller('reports')
export class ReportsController {
  @Get()
  @Locked('address:<ip>', { permits: 2, waitMs: 0, onBusy: tooMany }) // two at a time from one address
  async report(@Ip() ip: string): Promise<string> {
    return `a long report for ${ip}`;
  }
}

export abstract class TrustedAddresses {
  abstract has(address: string): Promise<boolean>;
}

@Injectable()
export class SignInLimit {
  constructor(
    private readonly redis: Redis,
    private readonly trusted: TrustedAddresses,
  ) {}

  /** Reads, decides, writes: several steps in two systems, which need the lock. */
  @Locked('sign-in:<address>', { waitMs: 1_000 })
  async admit(address: string): Promise<boolean> {
    const key = `sign-in:${address}`;
    const attempts = await this.redis.llen(key);
    if (attempts >= 3 && !(await this.trusted.has(address))) return false;
    await this.redis.multi().rpush(key, Date.now()).expire(key, 600).exec();
    return true;
  }
}
