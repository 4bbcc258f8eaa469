import { Injectable } from '@nestjs/common';
import { OnEvent } from '@nestjs/event-emitter';
import { Locked, type LockTimeoutError } from 'nestjs-redis-lock';

export interface OrderPaid {
  readonly id: number;
}

@Injectable()
export class ShippingListener {
  readonly shipped = new Set<number>();
  readonly postponed: number[] = [];

  @OnEvent('order.paid')
  @Locked('order:<order.id>', { waitMs: 1_000, onBusy: postpone })
  async ship(order: OrderPaid): Promise<void> {
    this.shipped.add(order.id);
  }
}

/** This emitter does not repeat events. So a busy lock must not lose one. */
function postpone(this: ShippingListener, _error: LockTimeoutError, order: OrderPaid): void {
  this.postponed.push(order.id);
}
