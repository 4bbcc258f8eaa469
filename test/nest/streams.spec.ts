import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { Controller, Get, Param, ParseIntPipe, Res, Sse, StreamableFile } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, type Lock, Locked, LockLostError, LockScope, type LockService } from 'nestjs-redis-lock';
import { lockChannels } from 'nestjs-redis-lock/events';
import { createTestLocks, withLocks } from 'nestjs-redis-lock/testing';
import { EMPTY, from, lastValueFrom, Observable, of, Subject, throwError, toArray } from 'rxjs';
import { type Deferred, deferred } from '../support/async.js';
import { closeApps, PLATFORMS, startApp, type TestApp } from './support/app.js';
import { type GoodsHandler, goodsController } from './support/goods-controller.js';
import { RawRequest } from './support/raw-request.js';
import { Copying } from './support/wrappers.js';

/** The response of a platform. */
interface Sender {
  send(body: string): unknown;
}

/** Streams that the test writes to. */
@Controller()
class StreamsController {
  readonly feed = new Subject<string>();
  subscribed: Deferred<AbortSignal> = deferred();
  readonly response: Deferred<Sender> = deferred();

  @Get('observable/:id')
  @Locked('goods:<id>')
  observable(@Param('id', ParseIntPipe) _id: number, @CurrentLock() lock: Lock): Observable<string> {
    return this.watch(lock);
  }

  @Get('promised/:id')
  @Locked('goods:<id>')
  async promised(@Param('id') _id: string, @CurrentLock() lock: Lock): Promise<Observable<string>> {
    return this.watch(lock);
  }

  @Locked('goods:<id>')
  @Sse('events/:id')
  events(@Param('id', ParseIntPipe) _id: number, @CurrentLock() lock: Lock): Observable<string> {
    return this.watch(lock);
  }

  @Sse('promised-events/:id')
  @Locked('goods:<id>')
  async promisedEvents(@Param('id') _id: string, @CurrentLock() lock: Lock): Promise<Observable<string>> {
    return this.watch(lock);
  }

  @Get('sent')
  @Locked('goods:1')
  async send(@Res() response: Sender): Promise<void> {
    // Not the response itself, because that of Fastify is a promise.
    this.response.resolve({ send: (body) => response.send(body) });
  }

  @Get('passed')
  @Locked('goods:1')
  async pass(@Res({ passthrough: true }) _response: Sender): Promise<string> {
    return 'passed';
  }

  @Get('nothing/:id')
  @Locked('goods:<id>')
  nothing(@Param('id') _id: string): Observable<string> {
    return undefined as never;
  }

  private watch(lock: Lock): Observable<string> {
    return new Observable((subscriber) => {
      this.subscribed.resolve(lock.signal);
      return this.feed.subscribe(subscriber);
    });
  }
}

@Controller('sse')
class EventsController {
  // Waits until Nest has sent the headers. An earlier refusal is a 423 in Nest 12.
  @Sse('busy')
  @Locked('goods:1', { waitMs: 50 })
  busy(): Observable<object> {
    return EMPTY;
  }

  @Sse('lost')
  lost(): Observable<object> {
    return throwError(() => new LockLostError('the lock of api-7f9c-31 was lost'));
  }

  @LockScope()
  @Sse('scoped')
  scoped(): Observable<object> {
    return of({ data: 'cheap' });
  }

  @Sse('skipped')
  @Locked('goods:1', { waitMs: 0, onBusy: () => of({ data: 'sold out' }) })
  skipped(): Observable<object> {
    return EMPTY;
  }
}

async function readUntil(response: Response, text: string): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  for (let seen = ''; !seen.includes(text);) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`the response ended without ${text}: ${seen}`);
    seen += Buffer.from(value).toString();
  }
  return reader;
}

afterEach(closeApps);

describe.each(PLATFORMS)('on %s', (platform) => {
  let app: TestApp;
  let controller: StreamsController;
  beforeEach(async () => {
    app = await startApp({ platform, controllers: [StreamsController, EventsController] });
    controller = app.nest.get(StreamsController);
  });

  const statusOf = async (path: string): Promise<number> => (await app.call(path)).status;

  describe('an Observable', () => {
    it.each(['observable', 'promised'])('holds the lock until it completes (%s)', async (route) => {
      const call = app.call(`/${route}/1`);
      await controller.subscribed.promise;
      controller.feed.next('first');
      expect(await app.isLocked('goods:1')).toBe(true);
      controller.feed.next('last');
      controller.feed.complete();
      expect((await call).text).toBe('last');
      expect(await app.isLocked('goods:1')).toBe(false);
    });

    it('holds the lock until it fails', async () => {
      const call = app.call('/observable/1');
      await controller.subscribed.promise;
      expect(await app.isLocked('goods:1')).toBe(true);
      controller.feed.error(new Error('broken'));
      expect((await call).status).toBe(500);
      expect(await app.isLocked('goods:1')).toBe(false);
    });

    it('that is not there releases the lock', async () => {
      expect(await statusOf('/nothing/1')).toBe(200);
      await app.log.until('released goods:1');
    });
  });

  describe('server-sent events', () => {
    it.each(['events', 'promised-events'])('hold the lock until they end (%s)', async (route) => {
      const response = await fetch(`${app.url}/${route}/1`);
      expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
      await controller.subscribed.promise;
      controller.feed.next('hello');
      const reader = await readUntil(response, 'hello');
      expect(await app.isLocked('goods:1')).toBe(true);
      controller.feed.complete();
      while (!(await reader.read()).done);
      await app.log.until('released goods:1');
      expect(app.log.count('granted goods:1')).toBe(1);
    });

    it('with a @LockScope are sent', async () => {
      expect((await app.call('/sse/scoped')).text).toContain('data: cheap');
    });

    it('of a busy lock are an error event without the holder', async () => {
      // In another instance, because an instance refuses a lock of its own without asking Redis.
      const other = await startApp({ prefix: app.prefix, locks: { identity: 'api-7f9c-31' } });
      await other.locks.using('goods:1', async () => {
        const { text } = await app.call('/sse/busy');
        expect(text).toContain('event: error\n');
        expect(text).toContain('data: goods:1 is locked by others.\n');
        expect(text).not.toContain('api-7f9c-31');
      });
      expect(app.log.count('granted')).toBe(1);
    });

    it('of a lost lock are an error without details, which are logged', async () => {
      const { text } = await app.call('/sse/lost');
      expect(text).toContain('Internal Server Error');
      expect(text).not.toContain('api-7f9c-31');
      expect(app.logged).toEqual([expect.stringContaining('the lock of api-7f9c-31 was lost')]);
    });

    it('have what onBusy returns', async () => {
      await app.locks.using('goods:1', async () => {
        expect((await app.call('/sse/skipped')).text).toContain('data: sold out');
      });
    });

    it('take no lock if a pipe refuses the request', async () => {
      expect(await statusOf('/events/seven')).toBe(400);
      expect(app.log.lines).toEqual([]);
    });
  });

  it.each(['observable', 'events'])('a client disconnect releases the lock of a stream (%s)', async (route) => {
    const client = new RawRequest(`${app.url}/${route}/1`);
    const signal = await controller.subscribed.promise;
    expect(await app.isLocked('goods:1')).toBe(true);
    client.hangUp();
    await app.log.until('released goods:1');
    expect(signal.reason).toMatchObject({ name: 'AbortError' });
    expect(controller.feed.observed).toBe(false);
  });

  it.each(['observable', 'events'])(
    'a client disconnect ends the wait for the lock of a stream (%s)',
    async (route) => {
      const holder = await app.locks.acquire('goods:1');
      const client = new RawRequest(`${app.url}/${route}/1`);
      await app.log.until('requested goods:1', 2);
      client.hangUp();
      await app.log.until('refused goods:1');
      await holder.release();
      expect(app.log.count('granted goods:1')).toBe(1);
    },
  );

  describe('a handler with @Res()', () => {
    it('holds its lock until it has sent the response', async () => {
      const call = app.call('/sent');
      const response = await controller.response.promise;
      // A release at the end of the method would be on the connection before this request.
      await app.locks.inspect('goods:2');
      const isLocked = await app.isLocked('goods:1');
      response.send('later');
      expect([(await call).text, isLocked]).toEqual(['later', true]);
      await app.log.until('released goods:1');
    });

    it('holds its lock until Nest sends the response, if it lets Nest do so', async () => {
      expect((await app.call('/passed')).text).toBe('passed');
      expect(await app.isLocked('goods:1')).toBe(false);
    });
  });

  describe('a StreamableFile', () => {
    let file: Readable;
    let handler: GoodsHandler;
    const startFiles = async (decorators: readonly unknown[] = [Locked('goods:<id>')]): Promise<void> => {
      file = new Readable({ read: () => undefined });
      file.push('chapter one');
      const files = goodsController(decorators, () => new StreamableFile(file));
      app = await startApp({ platform, controllers: [files] });
      handler = app.nest.get(files);
    };

    it.each([
      ['of one lock', [Locked('goods:<id>')]],
      ['of several, below a decorator', [Copying(), Locked(['goods:<id>', 'goods:2'])]],
    ])('holds its usable lock until it is sent (%s)', async (_what, decorators) => {
      await startFiles(decorators);
      const reader = await readUntil(await fetch(`${app.url}/goods/1`), 'chapter one');
      handler.lock?.assertHeld();
      file.push(null);
      while (!(await reader.read()).done);
      await app.log.until('released goods:1');
      expect(() => handler.lock?.assertHeld()).toThrow(LockLostError);
    });

    it('releases the lock after a client disconnect, when its stream closes', async () => {
      await startFiles();
      const client = new RawRequest(`${app.url}/goods/1`);
      await client.readUntil('chapter one');
      expect(await app.isLocked('goods:1')).toBe(true);
      client.hangUp();
      await app.log.until('released goods:1');
      expect(file.destroyed).toBe(true);
    });

    it('releases the lock if it fails midway', async () => {
      await startFiles();
      const reader = await readUntil(await fetch(`${app.url}/goods/1`), 'chapter one');
      file.destroy(new Error('the disk is gone'));
      await app.log.until('released goods:1');
      const hasMore = reader.read().then(
        ({ done }) => !done,
        () => false,
      );
      expect(await hasMore).toBe(false);
    });

    it('from the disk is sent completely, and the lock is released', async () => {
      const send = () => new StreamableFile(createReadStream(__filename));
      app = await startApp({ platform, controllers: [goodsController([Locked('goods:<id>')], send)] });
      expect((await app.call('/goods/1')).text).toContain('from the disk is sent completely');
      await app.log.until('released goods:1');
      expect((await fetch(`${app.url}/goods/1`, { method: 'HEAD' })).status).toBe(200);
      await app.log.until('released goods:1', 2);
    });
  });
});

describe('an Observable of a provider', () => {
  class Provider {
    readonly feed = new Subject<string>();
    began = 0;

    @Locked('goods:<0>', { waitMs: 0, onBusy: () => 'sold elsewhere' })
    buy(_id: string): Observable<string> {
      return from(['sold']);
    }

    @Locked('goods:<0>', { minHoldMs: 60_000 })
    watch(_id: string): Observable<string> {
      this.began += 1;
      return this.feed;
    }

    @Locked('goods:<0>')
    signals(_id: string, @CurrentLock() lock?: Lock): Observable<AbortSignal> {
      return new Observable((subscriber) => subscriber.next((lock as Lock).signal));
    }

    @Locked('goods:<0>')
    async undeclared(_id: string): Promise<unknown> {
      return this.feed;
    }
  }

  let locks: LockService;
  let provider: Provider;
  beforeEach(() => {
    locks = createTestLocks();
    provider = withLocks(new Provider(), locks);
  });

  /** Resolves with the next event of that kind. */
  const next = (name: keyof typeof lockChannels): Promise<unknown> =>
    new Promise((resolve) => {
      const listener = (event: unknown): void => {
        lockChannels[name].unsubscribe(listener);
        resolve(event);
      };
      lockChannels[name].subscribe(listener);
    });

  it('holds the lock while somebody subscribes to it', async () => {
    const watched = provider.signals('1');
    expect(await locks.inspect('goods:1')).toBeNull();
    const signal = deferred<AbortSignal>();
    const subscription = watched.subscribe((given) => signal.resolve(given));
    expect((await signal.promise).aborted).toBe(false);
    expect(await locks.inspect('goods:1')).not.toBeNull();
    const released = next('released');
    subscription.unsubscribe();
    expect((await signal.promise).reason).toHaveProperty('name', 'AbortError');
    await released;
    expect(await locks.inspect('goods:1')).toBeNull();
  });

  it('has what onBusy returns, and completes', async () => {
    const holder = await locks.acquire('goods:1');
    expect(await lastValueFrom(provider.buy('1').pipe(toArray()))).toEqual(['sold elsewhere']);
    await holder.release();
    expect(await lastValueFrom(provider.buy('1').pipe(toArray()))).toEqual(['sold']);
  });

  it('that is not declared is an error', async () => {
    const message = expect.stringMatching(/Provider\.undeclared.*return type/);
    await expect(provider.undeclared('1')).rejects.toMatchObject({ code: 'LOCK_CONFIG', message });
  });

  it('does not begin if unsubscribed at the grant, and minHoldMs does not apply', async () => {
    const released = next('released');
    const subscription = provider.watch('1').subscribe();
    const leave = (): void => subscription.unsubscribe();
    lockChannels.granted.subscribe(leave);
    await released;
    lockChannels.granted.unsubscribe(leave);
    expect(await locks.inspect('goods:1')).toBeNull();
    expect(provider.began).toBe(0);
  });
});
