import { Injectable } from '@nestjs/common';
import { Locked, LockService, resource } from 'nestjs-redis-lock';

@Injectable()
export class LedgerService {
  constructor(private readonly locks: LockService) {}

  @Locked('account:<id>')
  async deposit(id: number, cents: number): Promise<string> {
    return this.book(id, cents);
  }

  async book(id: number, cents: number): Promise<string> {
    const { fencingToken } = this.locks.assertHeld(resource`account:${id}`); // or LockNotHeldError
    return `${cents} cents are booked under ${fencingToken === undefined ? 'no token' : 'a token'}`;
  }
}
