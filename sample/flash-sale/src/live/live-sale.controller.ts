import { Body, ConflictException, Controller, Get, Header, HttpCode, Patch, Post, Query } from '@nestjs/common';
import { BuyersService } from './buyers.service.js';
import { LiveSaleService, type LiveState } from './live-sale.service.js';
import { NamePipe } from './name.pipe.js';
import { WholeNumberPipe } from './whole-number.pipe.js';

const FEWEST = 2;
const MOST = 40;
const USUAL = 12;
const ANY = Number.MAX_SAFE_INTEGER;

@Controller('sale')
export class LiveSaleController {
  constructor(
    private readonly live: LiveSaleService,
    private readonly buyers: BuyersService,
  ) {}

  /** Returns the state, and what happened after the first `after` purchases of that sale. */
  @Get()
  @Header('Cache-Control', 'no-store')
  state(
    @Query('sale', new WholeNumberPipe(0, ANY, 0)) id: number,
    @Query('after', new WholeNumberPipe(0, ANY, 0)) after: number,
  ): Promise<LiveState> {
    return this.live.state(id, after);
  }

  /** Starts a sale. With `after`, only if that is still the latest one: 0 if there was none. */
  @Post()
  start(
    @Body('perSecond', new WholeNumberPipe(FEWEST, MOST, USUAL)) perSecond: number,
    @Body('after', new WholeNumberPipe(0, ANY, ANY)) after: number,
  ): Promise<void> {
    return this.live.start(perSecond, after === ANY ? undefined : after);
  }

  @Patch()
  setRate(@Body('perSecond', new WholeNumberPipe(FEWEST, MOST)) perSecond: number): Promise<void> {
    return this.live.setRate(perSecond);
  }

  /** Sends a buyer to both sides, from this instance. The response does not wait for the purchases. */
  @Post('buyers')
  @HttpCode(202)
  async buy(@Body('name', new NamePipe()) name: string): Promise<void> {
    const sale = await this.live.running();
    if (sale === undefined) throw new ConflictException('The sale is over: start a new one.');
    void this.buyers.send(sale, name);
  }
}
