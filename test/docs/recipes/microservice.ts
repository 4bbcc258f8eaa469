import { Controller } from '@nestjs/common';
import { EventPattern, MessagePattern, Payload } from '@nestjs/microservices';
import { Redis } from 'ioredis';
import { Locked } from 'nestjs-redis-lock';

export interface Order {
  readonly id: number;
}

@Controller()
export class OrdersConsumer {
  constructor(private readonly redis: Redis) {}

  @MessagePattern('order.total')
  @Locked('order:<order.id>', { waitMs: 2_000 })
  async total(@Payload() order: Order): Promise<number> {
    return order.id * 100;
  }

  @EventPattern('order.paid') // Redis sends it to every instance
  @Locked('order:<order.id>')
  async paid(@Payload() order: Order): Promise<void> {
    if ((await this.redis.exists(`mailed:${order.id}`)) === 1) return; // another instance did it
    await this.redis.rpush('mails', `order ${order.id} is paid`);
    await this.redis.set(`mailed:${order.id}`, 1, 'EX', 86_400);
  }
}
