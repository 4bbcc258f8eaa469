import { Readable } from 'node:stream';
import { Controller, Get, Param, Sse, StreamableFile, UseInterceptors } from '@nestjs/common';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Locked, LockScope, LockService } from 'nestjs-redis-lock';
import { io } from 'socket.io-client';
import { Observable } from 'rxjs';
import { closeApps, keyOf, PLATFORMS, startApp } from './support/app.js';
import { Control, HandlerCommit } from './support/interceptors.js';
import { RawRequest } from './support/raw-request.js';
import { Room } from './support/room.js';
import { Copying, Foreign, Proxied } from './support/wrappers.js';

@Controller()
class WrappedController {
  constructor(
    private readonly room: Room,
    private readonly locks: LockService,
  ) {}

  @Sse('sse/:id')
  @Foreign()
  @Locked('goods:<id>', { waitMs: 0 })
  sse(@Param('id') id: string): Observable<{ data: string }> {
    return this.untilLeft(id);
  }

  @Get('file/:id')
  @Foreign()
  @Locked('goods:<id>', { waitMs: 0 })
  file(@Param('id') id: string): StreamableFile {
    const room = this.room;
    return new StreamableFile(
      Readable.from(
        (async function* () {
          yield 'first';
          await room.stay(id);
          yield 'last';
        })(),
      ),
    );
  }

  @Get('commit/:id')
  @UseInterceptors(HandlerCommit)
  @Foreign()
  @Locked('goods:<id>', { waitMs: 0 })
  async commit(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('proxied/:id')
  @UseInterceptors(HandlerCommit)
  @Proxied()
  @Locked('goods:<id>', { waitMs: 0 })
  async proxied(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('copying/:id')
  @UseInterceptors(HandlerCommit)
  @Copying()
  @Foreign()
  @Locked('goods:<id>', { waitMs: 0 })
  async copying(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('scoped-above/:id')
  @UseInterceptors(HandlerCommit)
  @LockScope()
  @Foreign()
  @Locked('goods:<id>', { waitMs: 0 })
  async scopedAbove(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('scoped-below/:id')
  @UseInterceptors(HandlerCommit)
  @Foreign()
  @LockScope()
  async scopedBelow(@Param('id') id: string): Promise<string> {
    return this.locks.using(`goods:${id}`, async () => id);
  }

  private untilLeft(id: string): Observable<{ data: string }> {
    return new Observable((subscriber) => {
      subscriber.next({ data: 'first' });
      this.room.stay(id).then(
        () => subscriber.complete(),
        (error: unknown) => subscriber.error(error),
      );
    });
  }
}

@Controller()
class InheritingController extends WrappedController {}

@WebSocketGateway()
class WrappedGateway {
  @SubscribeMessage('buy')
  @UseInterceptors(HandlerCommit)
  @Foreign()
  @Locked('goods:1', { waitMs: 0 })
  async buy(): Promise<{ event: string; data: string }> {
    return { event: 'bought', data: 'goods' };
  }
}

/** Replaces every method by the same function. */
function Constant(): MethodDecorator {
  return (_target, _key, descriptor: PropertyDescriptor) => void (descriptor.value = constant);
}
const constant = (): string => 'constant';

@Controller()
class ConstantController {
  @Constant()
  @Locked('goods:1')
  async one(): Promise<string> {
    return '1';
  }

  @Get('two')
  @Constant()
  @Locked('goods:2')
  async two(): Promise<string> {
    return '2';
  }
}

afterEach(closeApps);

describe('a handler whose function other methods have, too', () => {
  it('fails the start, because its lock would end with the method', async () => {
    await expect(startApp({ controllers: [ConstantController] })).rejects.toThrow(
      /ConstantController\.two: .*replaced the handler.*before the response is complete/,
    );
  });
});

describe.each(PLATFORMS)('a handler under a wrapper without metadata (%s)', (platform) => {
  const start = (controller: typeof WrappedController = WrappedController) =>
    startApp({ platform, controllers: [controller], providers: [Control, WrappedGateway] });

  it.each(['sse', 'file'])('keeps its lock until the stream ends: %s', async (path) => {
    const app = await start();
    const request = new RawRequest(`${app.url}/${path}/1`);
    await request.readUntil('first');
    const visit = await app.room.next();
    expect(await app.isLocked('goods:1')).toBe(true);
    expect(app.log.count('released')).toBe(0);
    visit.leave();
    await app.log.until('released goods:1');
    expect(app.log.count('granted')).toBe(1);
  });

  it.each(['commit', 'proxied', 'copying', 'scoped-above', 'scoped-below'])(
    'keeps its lock while interceptors work: %s',
    async (path) => {
      const app = await start(path === 'commit' ? InheritingController : WrappedController);
      const control = app.nest.get(Control);
      control.key = keyOf(app.prefix, 'goods:1');
      expect((await app.call(`/${path}/1`)).text).toBe('1');
      expect(control.commits).toEqual(['handler under the lock']);
      expect(await app.isLocked('goods:1')).toBe(false);
    },
  );

  it('replies 423 while the lock is held', async () => {
    const app = await start();
    const holder = await app.locks.acquire('goods:1');
    const { status, body } = await app.call('/commit/1');
    expect([status, body.code]).toEqual([423, 'LOCK_TIMEOUT']);
    await holder.release();
  });

  it('keeps its lock in a gateway', async () => {
    const app = await start();
    const control = app.nest.get(Control);
    control.key = keyOf(app.prefix, 'goods:1');
    const socket = io(app.url, { transports: ['websocket'] });
    const bought = new Promise((resolve) => socket.once('bought', resolve));
    socket.emit('buy');
    expect(await bought).toBe('goods');
    socket.close();
    expect(control.commits).toEqual(['handler under the lock']);
  });
});
