import { setTimeout } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { Locked, LockService, resource } from 'nestjs-redis-lock';

@Injectable()
export class SeatService {
  private readonly buyers = new Map<number, string>();

  constructor(private readonly locks: LockService) {}

  @Locked('seat:<id>') // one caller at a time for each id, across all instances
  async book(id: number, buyer: string): Promise<boolean> {
    if (this.buyers.has(id)) return false;
    await setTimeout(1_000); // the payment
    this.buyers.set(id, buyer);
    return true;
  }

  cancel(id: number): Promise<boolean> {
    return this.locks.using(resource`seat:${id}`, (lock) => {
      lock.assertHeld(); // right before a write that needs the lock
      return this.buyers.delete(id);
    });
  }
}
