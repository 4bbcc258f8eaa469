import { Injectable } from '@nestjs/common';
import { CurrentLock, type Lock, Locked } from 'nestjs-redis-lock';

export class Orders {
  async save(_id: number): Promise<void> {}
}

@Injectable()
export class Checkout {
  constructor(private readonly orders: Orders) {}

  @Locked('order:<id>', { onUnavailable: 'skip' })
  async pay(id: number, @CurrentLock() lock?: Lock): Promise<string> {
    await this.orders.save(id);
    lock?.assertHeld();
    return 'paid';
  }
}
