import { Controller, Get, HttpException, HttpStatus, Ip } from '@nestjs/common';
import { Locked } from 'nestjs-redis-lock';

const tooMany = (): never => {
  throw new HttpException('Too many requests', HttpStatus.TOO_MANY_REQUESTS);
};

@Controller('reports')
export class ReportsController {
  @Get()
  @Locked('address:<ip>', { permits: 2, waitMs: 0, onBusy: tooMany }) // two for one address
  async report(@Ip() ip: string): Promise<string> {
    return `a long report for ${ip}`;
  }
}
