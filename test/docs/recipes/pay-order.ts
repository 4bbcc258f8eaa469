import { Module } from '@nestjs/common';
import {
  Command,
  CommandHandler,
  CqrsModule,
  EventBus,
  EventsHandler,
  type ICommandHandler,
  type IEventHandler,
} from '@nestjs/cqrs';
import { Locked, RedisLockModule } from 'nestjs-redis-lock';

export class PayOrder extends Command<number> {
  constructor(
    readonly order: number,
    readonly cents: number,
  ) {
    super();
  }
}

export class OrderPaid {
  constructor(readonly order: number) {}
}

@CommandHandler(PayOrder)
export class PayOrderHandler implements ICommandHandler<PayOrder> {
  private readonly paid = new Map<number, number>();

  constructor(private readonly events: EventBus) {}

  @Locked('order:<command.order>')
  async execute(command: PayOrder): Promise<number> {
    const paid = (this.paid.get(command.order) ?? 0) + command.cents;
    this.paid.set(command.order, paid);
    this.events.publish(new OrderPaid(command.order));
    return paid;
  }
}

@EventsHandler(OrderPaid)
export class ShipOrder implements IEventHandler<OrderPaid> {
  readonly shipped: number[] = [];

  @Locked('shipment:<event.order>')
  async handle(event: OrderPaid): Promise<void> {
    this.shipped.push(event.order);
  }
}

@Module({
  imports: [CqrsModule.forRoot(), RedisLockModule.forRoot({ redis: process.env['REDIS_URL'] })],
  providers: [PayOrderHandler, ShipOrder],
})
export class OrdersModule {}
