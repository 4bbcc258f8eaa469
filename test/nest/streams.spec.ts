import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { Controller, Get, Header, Param, Sse, StreamableFile } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, Lock, Locked } from 'nestjs-redis-lock';
import { Observable, of, Subject } from 'rxjs';
import { type Deferred, deferred } from '../support/async.js';
import { closeApps, PLATFORMS, startApp, type TestApp } from './support/app.js';
import { RawRequest } from './support/raw-request.js';

/** Streams that the test writes to. */
@Controller()
class StreamsController {
  subject = new Subject<string>();
  subscribed: Deferred<AbortSignal> = deferred();
  file = new Readable({ read: () => undefined });

  @Get('observable/:id')
  @Locked('goods:<id>', { waitMs: 0 })
  observable(@Param('id') _id: string, @CurrentLock() lock: Lock): Observable<string> {
    return this.feed(lock);
  }

  @Get('promised/:id')
  @Locked('goods:<id>', { waitMs: 0 })
  async promised(@Param('id') _id: string, @CurrentLock() lock: Lock): Promise<Observable<string>> {
    return this.feed(lock);
  }

  @Locked('goods:<id>', { waitMs: 0 })
  @Sse('events/:id')
  events(@Param('id') _id: string, @CurrentLock() lock: Lock): Observable<string> {
    return this.feed(lock);
  }

  @Get('at-once/:id')
  @Locked('goods:<id>')
  atOnce(@Param('id') id: string, @CurrentLock() lock: Lock): Observable<string> {
    this.subscribed.resolve(lock.signal);
    return of(id);
  }

  @Get('file/:id')
  @Header('content-type', 'text/plain')
  @Locked('goods:<id>', { waitMs: 0 })
  async streamed(@Param('id') _id: string): Promise<StreamableFile> {
    return new StreamableFile(this.file);
  }

  @Get('short-file/:id')
  @Locked('goods:<id>', { waitMs: 0 })
  async shortFile(@Param('id') _id: string): Promise<StreamableFile> {
    return new StreamableFile(createReadStream(__filename));
  }

  private feed(lock: Lock): Observable<string> {
    return new Observable((subscriber) => {
      this.subscribed.resolve(lock.signal);
      return this.subject.subscribe(subscriber);
    });
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

describe.each(PLATFORMS)('on %s', (platform) => {
  let app: TestApp;
  let controller: StreamsController;
  beforeEach(async () => {
    app = await startApp({ platform, controllers: [StreamsController] });
    controller = app.nest.get(StreamsController);
  });
  afterEach(closeApps);

  const statusOf = async (path: string): Promise<number> => (await app.call(path)).status;

  describe.each(['observable', 'promised'])('an Observable (%s)', (route) => {
    it('holds the lock until it completes', async () => {
      const call = app.call(`/${route}/1`);
      await controller.subscribed.promise;
      controller.subject.next('first');
      expect(await app.isLocked('goods:1')).toBe(true);
      expect(await statusOf(`/${route}/1`)).toBe(423);
      controller.subject.next('last');
      controller.subject.complete();
      expect((await call).text).toBe('last');
      expect(await app.isLocked('goods:1')).toBe(false);
    });

    it('holds the lock until it fails', async () => {
      const call = app.call(`/${route}/1`);
      await controller.subscribed.promise;
      expect(await app.isLocked('goods:1')).toBe(true);
      controller.subject.error(new Error('broken'));
      expect((await call).status).toBe(500);
      expect(await app.isLocked('goods:1')).toBe(false);
    });
  });

  it('an Observable releases the lock after a client disconnect', async () => {
    const client = new RawRequest(`${app.url}/observable/1`);
    const signal = await controller.subscribed.promise;
    client.hangUp();
    await app.log.until('released goods:1');
    expect(signal.reason).toMatchObject({ name: 'AbortError' });
    expect(controller.subject.observed).toBe(false);
  });

  it('an Observable stops waiting for its lock after a client disconnect', async () => {
    const holder = await app.locks.acquire('goods:1');
    const client = new RawRequest(`${app.url}/at-once/1`);
    await app.log.until('requested goods:1', 2);
    client.hangUp();
    await app.log.until('refused goods:1');
    expect(app.log.count('granted goods:1')).toBe(1);
    await holder.release();
  });

  it('an Observable that completes at once does not abort its signal', async () => {
    const response = await app.call('/at-once/1');
    expect([response.status, response.text]).toEqual([200, '1']);
    expect((await controller.subscribed.promise).aborted).toBe(false);
    expect(await app.isLocked('goods:1')).toBe(false);
  });

  describe('server-sent events', () => {
    it('hold the lock until they end', async () => {
      const response = await fetch(`${app.url}/events/1`);
      await controller.subscribed.promise;
      controller.subject.next('hello');
      const reader = await readUntil(response, 'hello');
      expect(await app.isLocked('goods:1')).toBe(true);
      expect(await app.locks.tryAcquire('goods:1')).toBeNull();
      controller.subject.complete();
      while (!(await reader.read()).done);
      await app.log.until('released goods:1');
    });

    it('release the lock after a client disconnect', async () => {
      const client = new RawRequest(`${app.url}/events/1`);
      const signal = await controller.subscribed.promise;
      controller.subject.next('hello');
      await client.readUntil('hello');
      expect(await app.isLocked('goods:1')).toBe(true);
      client.hangUp();
      await app.log.until('released goods:1');
      expect(signal.aborted).toBe(true);
      expect(controller.subject.observed).toBe(false);
    });

    it('do not start while another stream holds the lock', async () => {
      const first = await fetch(`${app.url}/events/1`);
      await controller.subscribed.promise;
      const second = await fetch(`${app.url}/events/1`);
      await second.text();
      expect(app.log.count('granted goods:1')).toBe(1);
      expect(app.log.count('refused goods:1')).toBe(1);
      controller.subject.complete();
      await first.text();
    });
  });

  describe('a StreamableFile', () => {
    it('holds the lock until its stream closes', async () => {
      controller.file.push('chapter one');
      const response = await fetch(`${app.url}/file/1`);
      const reader = await readUntil(response, 'chapter one');
      expect(await app.isLocked('goods:1')).toBe(true);
      expect(await statusOf('/file/1')).toBe(423);
      controller.file.push(null);
      while (!(await reader.read()).done);
      await app.log.until('released goods:1');
      expect(controller.file.closed).toBe(true);
    });

    it('holds the lock after a client disconnect until its stream closes', async () => {
      controller.file.push('chapter one');
      const client = new RawRequest(`${app.url}/file/1`);
      await client.readUntil('chapter one');
      expect(await app.isLocked('goods:1')).toBe(true);
      client.hangUp();
      await app.log.until('released goods:1');
      expect(controller.file.destroyed).toBe(true);
    });

    it('releases the lock if it fails midway', async () => {
      controller.file.push('chapter one');
      const response = await fetch(`${app.url}/file/1`);
      const reader = await readUntil(response, 'chapter one');
      controller.file.destroy(new Error('the disk is gone'));
      await app.log.until('released goods:1');
      const hasMore = reader.read().then(
        ({ done }) => !done,
        () => false,
      );
      expect(await hasMore).toBe(false);
    });

    it('from the disk is sent completely, and the lock is released', async () => {
      const response = await app.call('/short-file/1');
      expect(response.text).toContain('from the disk is sent completely');
      await app.log.until('released goods:1');
      const head = await fetch(`${app.url}/short-file/1`, { method: 'HEAD' });
      expect(head.status).toBe(200);
      await app.log.until('released goods:1', 2);
    });
  });
});
