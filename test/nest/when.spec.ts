import { Controller, Get, type MessageEvent, Param, Query, Sse, StreamableFile, UseInterceptors } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, type Lock, Locked, LockScope, LockService } from 'nestjs-redis-lock';
import { Observable, of } from 'rxjs';
import { closeApps, PLATFORMS, startApp, type TestApp } from './support/app.js';
import { Control, TimeoutInterceptor } from './support/interceptors.js';

/** Whether the client of the test wants the lock. */
const when = (_id: string, locked: string): boolean => locked === 'yes';

@Controller('goods')
class GoodsController {
  constructor(private readonly locks: LockService) {}

  @Get('plain/:id')
  @Locked('goods:<id>', { waitMs: 0, when })
  plain(@Param('id') id: string, @Query('locked') _locked: string, @CurrentLock() lock?: Lock): object {
    return { id, held: lock?.resource ?? null };
  }

  @Get('observable/:id')
  @Locked('goods:<id>', { waitMs: 0, when })
  observable(
    @Param('id') _id: string,
    @Query('locked') _locked: string,
    @CurrentLock() lock?: Lock,
  ): Observable<object> {
    return of({ held: lock?.resource ?? null });
  }

  @Sse('events/:id')
  @Locked('goods:<id>', { waitMs: 0, when })
  events(
    @Param('id') id: string,
    @Query('locked') _locked: string,
    @CurrentLock() lock?: Lock,
  ): Observable<MessageEvent> {
    return of({ data: `${id} ${lock === undefined ? 'without' : 'with'} its lock` });
  }

  @Get('file/:id')
  @Locked('goods:<id>', { waitMs: 0, when })
  file(@Param('id') id: string, @Query('locked') _locked: string): StreamableFile {
    return new StreamableFile(Buffer.from(`file ${id}`));
  }

  @Get('slow/:id')
  @UseInterceptors(TimeoutInterceptor)
  @Locked('goods:<id>', { waitMs: 0, when })
  slow(@Param('id') id: string, @Query('locked') _locked: string): string {
    return id;
  }

  @Get('scope/:id')
  @LockScope()
  @Locked('goods:<id>', { waitMs: 0, when })
  async scope(@Param('id') id: string, @Query('locked') _locked: string): Promise<object> {
    await this.locks.using(`other:${id}`, async () => undefined);
    return { kept: await this.locks.inspect(`other:${id}`).then((info) => info !== null) };
  }

  @Get('wrong/:id')
  @Locked('goods:<id>', { when: () => 'yes' as never })
  wrong(@Param('id') id: string): string {
    return id;
  }

  @Get('failing/:id')
  @Locked('goods:<id>', {
    when: () => {
      throw new Error('when has failed');
    },
  })
  failing(@Param('id') id: string): string {
    return id;
  }
}

afterEach(closeApps);

describe.each(PLATFORMS)('when of a handler on %s', (platform) => {
  const start = (): Promise<TestApp> => startApp({ platform, controllers: [GoodsController], providers: [Control] });

  it.each(['plain', 'observable', 'events', 'file', 'slow', 'scope'])('decides for each request: %s', async (path) => {
    const app = await start();
    await app.locks.using('goods:1', async () => {
      expect((await app.call(`/goods/${path}/1?locked=yes`)).status).toBe(423);
      const { status, text } = await app.call(`/goods/${path}/1?locked=no`);
      expect([status, text]).toEqual([200, expect.not.stringContaining('goods:1')]);
    });
    expect((await app.call(`/goods/${path}/1?locked=yes`)).status).toBe(200);
    await app.log.until('released goods:1', 2);
  });

  it('sends the events of a stream without a lock', async () => {
    const app = await start();
    expect((await app.call('/goods/events/1?locked=no')).text).toContain('data: 1 without its lock');
    expect((await app.call('/goods/events/1?locked=yes')).text).toContain('data: 1 with its lock');
  });

  it('leaves the lock scope of the handler as it is', async () => {
    const app = await start();
    expect((await app.call('/goods/scope/1?locked=no')).body).toEqual({ kept: true });
    await app.log.until('released other:1');
    expect(app.log.count('requested goods:1')).toBe(0);
  });

  it('is a 500 if it fails or returns no boolean, and the log says why', async () => {
    const app = await start();
    expect((await app.call('/goods/wrong/1')).status).toBe(500);
    expect((await app.call('/goods/failing/1')).status).toBe(500);
    expect(app.logged.join('\n')).toContain('GoodsController.wrong: the result of the when function is "yes"');
    expect(app.logged.join('\n')).toContain('when has failed');
    expect(app.log.lines).toEqual([]);
  });
});
