import { Injectable, Module } from '@nestjs/common';
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

/** In place of your database. */
@Injectable()
export class Orders {
  private readonly paid = new Map<number, number>();

  async load(order: number): Promise<number> {
    return this.paid.get(order) ?? 0;
  }

  async save(order: number, paid: number): Promise<void> {
    this.paid.set(order, paid);
  }
}

@CommandHandler(PayOrder)
export class PayOrderHandler implements ICommandHandler<PayOrder> {
  constructor(
    private readonly orders: Orders,
    private readonly events: EventBus,
  ) {}

  @Locked('order:<command.order>')
  async execute(command: PayOrder): Promise<number> {
    const paid = (await this.orders.load(command.order)) + command.cents;
    await this.orders.save(command.order, paid);
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
  providers: [Orders, PayOrderHandler, ShipOrder],
})
export class OrdersModule {}
