import { Controller, Get, Param, type Type } from '@nestjs/common';
import { CurrentLock, type Lock, LockService, type MultiLock } from 'nestjs-redis-lock';
import { Room } from './room.js';

/** What the handler of a test has. */
export interface GoodsHandler {
  readonly room: Room;
  readonly locks: LockService;
  readonly lock: Lock | MultiLock | undefined;
  /** The number of this call, from 1. */
  readonly calls: number;
}

/** What the method of the handler does. */
export type Work = (handler: GoodsHandler, id: string) => unknown;

/** Returns the decorators as one, the first one on top. */
export function stack(...decorators: readonly unknown[]): MethodDecorator {
  return (target, key, descriptor) => {
    const apply = (given: PropertyDescriptor, decorate: unknown): PropertyDescriptor =>
      ((decorate as MethodDecorator)(target, key, given) as PropertyDescriptor | undefined) ?? given;
    return decorators.reduceRight(apply, descriptor) as never;
  };
}

/** Returns a controller whose handler of `GET /goods/:id` has these decorators, the first one on top. */
export function goodsController(decorators: readonly unknown[], work: Work = ({ room }, id) => room.stay(id)): Type {
  @Controller('goods')
  class GoodsController implements GoodsHandler {
    calls = 0;
    lock: Lock | MultiLock | undefined;

    constructor(
      readonly room: Room,
      readonly locks: LockService,
    ) {}

    @Get(':id')
    @stack(...decorators)
    async buy(@Param('id') id: string, @CurrentLock() lock?: Lock | MultiLock): Promise<unknown> {
      this.calls += 1;
      this.lock = lock;
      return work(this, id);
    }
  }
  return GoodsController;
}
