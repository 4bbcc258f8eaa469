import { Controller, Param, ParseIntPipe, Post } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Locked } from 'nestjs-redis-lock';
import { type LostLockReport, RedisLockTestingModule, survivesLostLock } from 'nestjs-redis-lock/testing';

const stock = { left: 1 };

@Controller('goods')
export class GoodsController {
  @Post(':id/buy')
  @Locked('goods:<id>')
  async buy(@Param('id', ParseIntPipe) id: number): Promise<boolean> {
    if (stock.left === 0) return false;
    await this.charge(id);
    stock.left -= 1;
    return true;
  }

  private async charge(_id: number): Promise<void> {}
}

export async function neverOversellsOverHttp(): Promise<LostLockReport> {
  const module = await Test.createTestingModule({
    imports: [RedisLockTestingModule.forRoot()],
    controllers: [GoodsController],
  }).compile();
  const app = await module.createNestApplication().listen(0, '127.0.0.1');
  const url = `http://127.0.0.1:${app.address().port}/goods/300/buy`;
  try {
    return await survivesLostLock(
      () => fetch(url, { method: 'POST' }),
      () => stock.left >= 0,
      { setup: () => void (stock.left = 1) },
    );
  } finally {
    await app.close();
  }
}
