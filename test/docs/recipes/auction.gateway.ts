import { ConnectedSocket, MessageBody, SubscribeMessage, WebSocketGateway, WsException } from '@nestjs/websockets';
import { Redis } from 'ioredis';
import { Locked } from 'nestjs-redis-lock';

interface Bid {
  readonly lot: number;
  readonly cents: number;
}

@WebSocketGateway()
export class AuctionGateway {
  constructor(private readonly redis: Redis) {}

  @SubscribeMessage('bid')
  @Locked('lot:<bid.lot>', { waitMs: 500 }) // one bid at a time for each lot, in all instances
  async bid(@MessageBody() bid: Bid, @ConnectedSocket() client: { id: string }): Promise<object> {
    const key = `lot:${bid.lot}`;
    const highest = Number((await this.redis.hget(key, 'cents')) ?? 0);
    if (bid.cents <= highest) throw new WsException(`The highest bid is ${highest}.`);
    await this.redis.hset(key, { cents: bid.cents, bidder: client.id });
    return { event: 'accepted', data: bid.cents };
  }
}
