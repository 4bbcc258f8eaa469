import { Controller, Param, ParseIntPipe, Post } from '@nestjs/common';
import { Locked } from 'nestjs-redis-lock';
import { SeatService } from './seat.service.js';

@Controller('seats')
export class SeatController {
  constructor(private readonly seats: SeatService) {}

  @Post(':id/book/:buyer')
  async book(
    @Param('id', ParseIntPipe) id: number,
    @Param('buyer') buyer: string,
  ): Promise<string> {
    return (await this.seats.book(id, buyer))
      ? `seat ${id} is sold to ${buyer}`
      : `seat ${id} is taken`;
  }

  @Post(':id/try/:buyer')
  @Locked('seat:<id>', { waitMs: 0 }) // 423 Locked with Retry-After if it is held
  try(@Param('id', ParseIntPipe) id: number, @Param('buyer') buyer: string): Promise<string> {
    return this.book(id, buyer);
  }
}
