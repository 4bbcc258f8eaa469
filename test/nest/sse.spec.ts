import { Controller, Param, ParseIntPipe, Scope, Sse } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Locked, LockLostError, LockScope } from 'nestjs-redis-lock';
import { Observable, of, Subject, throwError } from 'rxjs';
import { type Deferred, deferred } from '../support/async.js';
import { closeApps, PLATFORMS, startApp, type TestApp } from './support/app.js';
import { RawRequest } from './support/raw-request.js';

interface Message {
  readonly data: string;
}

@Controller('stock')
class StockController {
  readonly prices = new Subject<Message>();
  subscribed: Deferred<void> = deferred();

  @Sse('observable/:id')
  @Locked('goods:<id>')
  observable(@Param('id', ParseIntPipe) _id: number): Observable<Message> {
    return this.feed();
  }

  @Locked('goods:<id>')
  @Sse('promised/:id')
  async promised(@Param('id') _id: string): Promise<Observable<Message>> {
    return this.feed();
  }

  @LockScope()
  @Sse('scoped/:id')
  scoped(@Param('id') _id: string): Observable<Message> {
    return this.feed();
  }

  @Sse('busy/:id')
  @Locked('goods:<id>', { waitMs: 0 })
  busy(@Param('id') id: string): Observable<Message> {
    return of({ data: id });
  }

  @Sse('lost')
  lost(): Observable<Message> {
    return throwError(() => new LockLostError('the lock of api-7f9c-31 was lost'));
  }

  @Sse('skipped/:id')
  @Locked('goods:<id>', { waitMs: 0, onBusy: () => of({ data: 'sold out' }) })
  skipped(@Param('id') _id: string): Observable<Message> {
    return this.feed();
  }

  private feed(): Observable<Message> {
    return new Observable((subscriber) => {
      this.subscribed.resolve();
      return this.prices.subscribe(subscriber);
    });
  }
}

@Controller({ path: 'requests', scope: Scope.REQUEST })
class RequestController {
  @Sse(':id')
  @Locked('goods:<id>', { waitMs: 0 })
  observable(@Param('id') id: string): Observable<Message> {
    return of({ data: id });
  }
}

afterEach(closeApps);

describe.each(PLATFORMS)('an @Sse handler on %s', (platform) => {
  let app: TestApp;
  let controller: StockController;
  beforeEach(async () => {
    app = await startApp({ platform, controllers: [StockController, RequestController] });
    controller = app.nest.get(StockController);
  });

  it.each(['stock/busy', 'requests'])('of a busy lock is an error event without the holder (%s)', async (path) => {
    // In another instance, because an instance refuses a lock of its own without asking Redis.
    const other = await startApp({ prefix: app.prefix, locks: { identity: 'api-7f9c-31' } });
    await other.locks.using('goods:1', async () => {
      const { text } = await app.call(`/${path}/1`);
      expect(text).toContain('event: error\n');
      expect(text).toContain('data: goods:1 is locked by others.\n');
      expect(text).not.toContain('api-7f9c-31');
    });
    expect(app.log.count('granted')).toBe(1);
  });

  it('of a lock that was lost is an error event without details', async () => {
    const { text } = await app.call('/stock/lost');
    expect(text).not.toContain('api-7f9c-31');
  });

  it.each(['observable', 'promised', 'scoped'])('holds its lock until its last event (%s)', async (route) => {
    const response = await fetch(`${app.url}/stock/${route}/1`);
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    await controller.subscribed.promise;
    expect(await app.isLocked('goods:1')).toBe(route !== 'scoped');
    controller.prices.next({ data: 'cheap' });
    controller.prices.complete();
    expect(await response.text()).toContain('data: cheap');
    if (route !== 'scoped') await app.log.until('released goods:1');
  });

  it('stops waiting for its lock if the client leaves', async () => {
    const holder = await app.locks.acquire('goods:1');
    const client = new RawRequest(`${app.url}/stock/observable/1`);
    await app.log.until('requested goods:1', 2);
    client.hangUp();
    await app.log.until('refused goods:1');
    await holder.release();
    expect(app.log.count('granted goods:1')).toBe(1);
  });

  it('releases its lock if the client leaves', async () => {
    const client = new RawRequest(`${app.url}/stock/observable/1`);
    await controller.subscribed.promise;
    expect(await app.isLocked('goods:1')).toBe(true);
    client.hangUp();
    await app.log.until('released goods:1');
  });

  it('takes no lock if a pipe refuses the request', async () => {
    expect((await app.call('/stock/observable/seven')).status).toBe(400);
    expect(app.log.lines).toEqual([]);
  });

  it('sends what onBusy returns', async () => {
    await app.locks.using('goods:1', async () => {
      expect((await app.call('/stock/skipped/1')).text).toContain('data: sold out');
    });
  });
});
