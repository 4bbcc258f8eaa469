import { Injectable } from '@nestjs/common';
import { Locked, LockService, type LockTimeoutError } from 'nestjs-redis-lock';

@Injectable()
export class PriceService {
  constructor(private readonly locks: LockService) {}

  @Locked('price:<id>', {
    waitMs: 0,
    onBusy: (error: LockTimeoutError, id: number) => `price ${id} is being updated: ${error.code}`,
  })
  async update(id: number): Promise<string> {
    return `price ${id} is updated`;
  }

  async updateIfFree(id: number): Promise<boolean> {
    await using lock = await this.locks.tryAcquire(`price:${id}`, { ttlMs: 10_000 });
    return lock !== null;
  }
}
