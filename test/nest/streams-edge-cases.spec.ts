import { Readable } from 'node:stream';
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Get,
  Injectable,
  type NestInterceptor,
  Param,
  StreamableFile,
  UseInterceptors,
} from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, Lock, lockChannels, Locked } from 'nestjs-redis-lock';
import { createTestLocks, withLocks } from 'nestjs-redis-lock/testing';
import { from, lastValueFrom, merge, mergeMap, Observable, retry, throwError, toArray } from 'rxjs';
import { deferred } from '../support/async.js';
import { closeApps, startApp, type TestApp } from './support/app.js';

let secondTry = deferred();

/** Ends the call when the second try runs, as a timeout does. */
@Injectable()
class RetryOnce implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const end = from(secondTry.promise).pipe(mergeMap(() => throwError(() => new Error('it took too long'))));
    return merge(next.handle().pipe(retry(1)), end);
  }
}

@Controller()
class OddController {
  readonly signals: AbortSignal[] = [];
  readonly done = deferred();
  readonly body = new Readable({ read: () => undefined });

  @Get('old-stream/:id')
  @Locked('goods:<id>')
  async oldStream(@Param('id') _id: string): Promise<StreamableFile> {
    const body = new Readable({ autoDestroy: false, emitClose: false, read: () => undefined });
    body.push('all of it');
    body.push(null);
    return new StreamableFile(body);
  }

  @Get('two-files/:id')
  @Locked('goods:<id>')
  twoFiles(@Param('id') _id: string): Observable<StreamableFile> {
    return new Observable((subscriber) => {
      const first = new Readable({ read: () => undefined });
      subscriber.next(new StreamableFile(first));
      subscriber.next(new StreamableFile(this.body));
      first.destroy().once('close', () => setImmediate(() => subscriber.complete()));
    });
  }

  @Get('no-file/:id')
  @Locked('goods:<id>')
  async noFile(@Param('id') _id: string): Promise<object> {
    return { getStream: () => Promise.resolve(1) };
  }

  @Get('no-stream/:id')
  @Locked('goods:<id>')
  async noStream(@Param('id') _id: string): Promise<object> {
    return { name: 'pump', getStream: () => ({ pipe: () => undefined }), setErrorHandler: () => undefined };
  }

  @Get('nothing/:id')
  @Locked('goods:<id>')
  nothing(@Param('id') _id: string): Observable<string> {
    return undefined as never;
  }

  @Get('tries/:id')
  @UseInterceptors(RetryOnce)
  @Locked('goods:<id>')
  async tries(@Param('id') _id: string, @CurrentLock() lock: Lock): Promise<string> {
    this.signals.push(lock.signal);
    if (this.signals.length === 1) throw new Error('the first try fails');
    secondTry.resolve();
    await this.done.promise;
    return 'too late';
  }
}

class Provider {
  @Locked('goods:<0>')
  nothing(_id: string): Observable<string> {
    return undefined as never;
  }

  @Locked('goods:<0>')
  endless(_id: string, @CurrentLock() lock?: Lock): Observable<AbortSignal> {
    return new Observable((subscriber) => subscriber.next((lock as Lock).signal));
  }
}

describe('a handler', () => {
  let app: TestApp;
  beforeEach(async () => {
    secondTry = deferred();
    app = await startApp({ controllers: [OddController] });
  });
  afterEach(() => closeApps());

  it('releases the lock after a stream that never closes itself is read', async () => {
    const response = await fetch(`${app.url}/old-stream/1`);
    expect(response.status).toBe(200);
    await app.log.until('released goods:1');
  });

  it('holds the lock until the last of two files is sent', async () => {
    const { body } = app.nest.get(OddController);
    body.push('chapter one');
    const response = await fetch(`${app.url}/two-files/1`);
    expect(await app.isLocked('goods:1')).toBe(true);
    body.push(null);
    expect(await response.text()).toBe('chapter one');
    await app.log.until('released goods:1');
  });

  it('releases the lock if it returns an object that resembles a file', async () => {
    expect((await fetch(`${app.url}/no-file/1`)).status).toBe(200);
    await app.log.until('released goods:1');
    expect((await app.call('/no-stream/1')).body).toEqual({ name: 'pump' });
    await app.log.until('released goods:1', 2);
  });

  it('releases the lock if it returns nothing instead of an Observable', async () => {
    expect((await fetch(`${app.url}/nothing/1`)).status).toBe(200);
    await app.log.until('released goods:1');
  });

  it('gets an aborted signal in a retry after the caller has left', async () => {
    const controller = app.nest.get(OddController);
    expect((await fetch(`${app.url}/tries/1`)).status).toBe(500);
    expect(controller.signals.map(({ aborted }) => aborted)).toEqual([true, true]);
    expect(await app.isLocked('goods:1')).toBe(true);
    controller.done.resolve();
    await app.log.until('released goods:1');
  });
});

describe('a provider', () => {
  it('releases the lock if it returns nothing instead of an Observable', async () => {
    const locks = createTestLocks();
    expect(await lastValueFrom(withLocks(new Provider(), locks).nothing('1'))).toBeUndefined();
    expect(await locks.inspect('goods:1')).toBeNull();
  });

  it('emits what onBusy returns, and completes', async () => {
    class Busy {
      @Locked('goods:<_id>', { waitMs: 0, onBusy: () => 'sold elsewhere' })
      buy(_id: string): Observable<string> {
        return from(['sold']);
      }
    }
    const locks = createTestLocks();
    const busy = withLocks(new Busy(), locks);
    const holder = await locks.acquire('goods:1');
    expect(await lastValueFrom(busy.buy('1').pipe(toArray()))).toEqual(['sold elsewhere']);
    await holder.release();
    expect(await lastValueFrom(busy.buy('1').pipe(toArray()))).toEqual(['sold']);
  });

  it('gets an aborted signal when its Observable is unsubscribed', async () => {
    const signal = deferred<AbortSignal>();
    const subscription = withLocks(new Provider())
      .endless('1')
      .subscribe((aborting) => signal.resolve(aborting));
    await signal.promise;
    subscription.unsubscribe();
    expect((await signal.promise).reason).toHaveProperty('name', 'AbortError');
  });

  it('keeps an unaborted signal when its Observable ends by itself', async () => {
    class Short {
      @Locked('goods:<0>')
      signals(_id: string, @CurrentLock() lock?: Lock): Observable<AbortSignal> {
        return from([(lock as Lock).signal]);
      }
    }
    const signal = await lastValueFrom(withLocks(new Short()).signals('1'));
    expect(signal.aborted).toBe(false);
  });

  it('does not start if unsubscribed at the grant, and minHoldMs does not apply', async () => {
    let began = 0;
    class Slow {
      @Locked('goods:<_id>', { minHoldMs: 60_000 })
      watch(_id: string): Observable<number> {
        began += 1;
        return new Observable();
      }
    }
    const locks = createTestLocks();
    const subscription = withLocks(new Slow(), locks).watch('1').subscribe();
    const released = deferred<unknown>();
    lockChannels.released.subscribe(released.resolve);
    const leave = (): void => subscription.unsubscribe();
    lockChannels.granted.subscribe(leave);
    await released.promise;
    lockChannels.granted.unsubscribe(leave);
    lockChannels.released.unsubscribe(released.resolve);
    expect(await locks.inspect('goods:1')).toBeNull();
    expect(began).toBe(0);
  });
});
