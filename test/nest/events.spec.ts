import { Injectable } from '@nestjs/common';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Locked } from 'nestjs-redis-lock';
import { closeApps, startApp } from './support/app.js';
import { Room } from './support/room.js';

@Injectable()
class SalesListener {
  constructor(private readonly room: Room) {}

  @OnEvent('above')
  @Locked('goods:<sale.id>', { waitMs: 0, onBusy: 'skip' })
  above(sale: { id: number }): Promise<number | undefined> {
    return this.room.stay(sale.id);
  }

  @Locked('goods:<sale.id>', { waitMs: 0, onBusy: 'skip' })
  @OnEvent('below')
  below(sale: { id: number }): Promise<number | undefined> {
    return this.room.stay(sale.id);
  }
}

afterEach(closeApps);

describe('an event listener', () => {
  it.each(['above', 'below'])('runs under the lock (@OnEvent %s @Locked)', async (event) => {
    const app = await startApp({ imports: [EventEmitterModule.forRoot()], providers: [SalesListener] });
    const emitter = app.nest.get(EventEmitter2);
    const first = emitter.emitAsync(event, { id: 7 });
    const visit = await app.room.next();
    expect(await app.isLocked('goods:7')).toBe(true);
    expect(await emitter.emitAsync(event, { id: 7 })).toEqual([undefined]);
    visit.leave();
    expect(await first).toEqual([7]);
    expect(await app.isLocked('goods:7')).toBe(false);
    expect(app.room.visits).toBe(1);
  });
});
