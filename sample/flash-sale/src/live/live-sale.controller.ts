import { Body, Controller, Get, Header, Patch, Post, Query } from '@nestjs/common';
import { LiveSaleService, type LiveState } from './live-sale.service.js';
import { WholeNumberPipe } from './whole-number.pipe.js';

const FEWEST = 2;
const MOST = 40;
const USUAL = 12;
const ANY = Number.MAX_SAFE_INTEGER;

@Controller('sale')
export class LiveSaleController {
  constructor(private readonly live: LiveSaleService) {}

  /** Returns the state, and what happened after the first `after` purchases of that sale. */
  @Get()
  @Header('Cache-Control', 'no-store')
  state(
    @Query('sale', new WholeNumberPipe(0, ANY, 0)) id: number,
    @Query('after', new WholeNumberPipe(0, ANY, 0)) after: number,
  ): Promise<LiveState> {
    return this.live.state(id, after);
  }

  @Post()
  start(@Body('perSecond', new WholeNumberPipe(FEWEST, MOST, USUAL)) perSecond: number): Promise<void> {
    return this.live.start(perSecond);
  }

  @Patch()
  setRate(@Body('perSecond', new WholeNumberPipe(FEWEST, MOST)) perSecond: number): Promise<void> {
    return this.live.setRate(perSecond);
  }
}
