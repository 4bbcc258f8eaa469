// The application of every consumer. The file is compiled against Nest 10, 11 and 12, as CommonJS and as ES module.
import {
  type DynamicModule,
  Controller,
  HttpCode,
  Injectable,
  Module,
  Param,
  ParseIntPipe,
  Post,
} from '@nestjs/common';
import { MessagePattern, Payload } from '@nestjs/microservices';
import { Locked, LockService, RedisLockModule, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { setTimeout as sleep } from 'node:timers/promises';

/** A deliberate read–pause–write: without the lock, of several at once all but one are lost. */
@Injectable()
export class GoodsService {
  readonly sold = new Map<number, number>();

  @Locked('stock:<id>')
  async take(id: number): Promise<number> {
    const sold = this.sold.get(id) ?? 0;
    await sleep(2);
    this.sold.set(id, sold + 1);
    return sold + 1;
  }
}

@Controller('goods')
export class GoodsController {
  constructor(
    private readonly goods: GoodsService,
    private readonly locks: LockService,
  ) {}

  @Post(':id/buy')
  @HttpCode(200)
  @Locked('goods:<id>')
  async buy(@Param('id', ParseIntPipe) id: number) {
    return { sold: await this.goods.take(id), held: this.locks.current()?.resource };
  }

  @Locked('goods:<id>', { waitMs: 0 })
  @Post(':id/grab')
  async grab(@Param('id', ParseIntPipe) id: number) {
    return { sold: await this.goods.take(id) };
  }

  @MessagePattern('buy')
  @Locked('goods:<order.id>', { waitMs: 0 })
  async onMessage(@Payload() order: { readonly id: number }) {
    await this.goods.take(order.id);
    return this.locks.current(`goods:${order.id}`)?.resource;
  }
}

@Module({})
export class AppModule {
  static with(options: RedisLockModuleOptions): DynamicModule {
    return {
      module: AppModule,
      imports: [RedisLockModule.forRoot(options)],
      controllers: [GoodsController],
      providers: [GoodsService],
    };
  }
}
