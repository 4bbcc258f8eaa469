import { Injectable } from '@nestjs/common';
import { CurrentLock, type Lock, Locked } from 'nestjs-redis-lock';

@Injectable()
export class InvoiceService {
  @Locked('invoice:<order.id>')
  async send(order: { id: string }, @CurrentLock() lock?: Lock): Promise<void> {
    const response = await fetch('https://mail.example/send', {
      method: 'POST',
      signal: lock?.signal,
    });
    lock?.assertHeld(); // throws LockLostError if the lease is over
    await this.markSent(order.id, lock?.fencingToken); // a row that refuses older tokens
    await response.body?.cancel();
  }

  private async markSent(_id: string, _token?: number): Promise<void> {}
}
