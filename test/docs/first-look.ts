import { Injectable } from '@nestjs/common';
import { Locked, LockService, resource } from 'nestjs-redis-lock';

@Injectable()
export class OrderService {
  constructor(private readonly locks: LockService) {}

  @Locked('order:<id>') // one caller at a time for each id, across all instances
  pay(id: number): Promise<string> {
    return Promise.resolve(`order ${id} is paid`);
  }

  refund(id: number): Promise<string> {
    return this.locks.using(resource`order:${id}`, () => `order ${id} is refunded`);
  }
}
