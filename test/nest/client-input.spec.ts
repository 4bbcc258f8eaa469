import { once } from 'node:events';
import {
  type ArgumentsHost,
  Body,
  Catch,
  Controller,
  Cookies,
  createParamDecorator,
  type ExceptionFilter,
  Get,
  Headers,
  HostParam,
  Injectable,
  Param,
  type PipeTransform,
  Post,
  Query,
  Sse,
} from '@nestjs/common';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Locked, LockKeyError, resource } from 'nestjs-redis-lock';
import { Observable, of } from 'rxjs';
import { io } from 'socket.io-client';
import { closeApps, PLATFORMS, startApp, type TestApp } from './support/app.js';

interface Goods {
  readonly id: string;
  readonly shop?: { readonly name: string };
}

class ToNumber implements PipeTransform {
  transform(value: string): number {
    return Number(value);
  }
}

class ToUser implements PipeTransform {
  transform(id: string): object {
    return { name: `user ${id}` };
  }
}

class Drop implements PipeTransform {
  transform(): undefined {
    return undefined;
  }
}

const Tenant = createParamDecorator(() => undefined);

@Injectable()
class GoodsService {
  @Locked('goods:<id>')
  async buy(id: string | undefined): Promise<string | undefined> {
    return id;
  }
}

@Controller()
class GoodsController {
  constructor(private readonly goods: GoodsService) {}

  @Get('query')
  @Locked('goods:<id>')
  query(@Query('id') id: string): string {
    return id;
  }

  @Get('whole-query')
  @Locked('goods:<query.id>')
  wholeQuery(@Query() query: Goods): string {
    return query.id;
  }

  @Get('path/:id')
  @Locked('goods:<params.size>')
  path(@Param() params: { size: string }): string {
    return params.size;
  }

  @Get('header')
  @Locked('goods:<0>')
  header(@Headers('X-Tenant') tenant: string): string {
    return tenant;
  }

  @Get('cookie')
  @Locked('goods:<id>')
  cookie(@Cookies('id') id: string): string {
    return id;
  }

  @Get('dropped-cookie')
  @Locked('goods:<id>')
  droppedCookie(@Cookies('id', Drop) id: string): string {
    return id;
  }

  @Get('host')
  @Locked('goods:<shop>')
  host(@HostParam('shop') shop: string): string {
    return shop;
  }

  @Post('team')
  @Locked('team:<constructor>')
  team(@Body('constructor') constructor: string): string {
    return constructor;
  }

  @Post('body')
  @Locked('goods:<goods.shop.name>')
  body(@Body() goods: Goods): string {
    return goods.id;
  }

  @Post('property')
  @Locked('goods:<id>')
  property(@Body('id') id: string): string {
    return id;
  }

  @Get('many')
  @Locked('goods:<...ids>')
  many(@Query('ids') ids: string[]): string {
    return String(ids);
  }

  @Get('number/:id')
  @Locked('goods:<id>')
  number(@Param('id', ToNumber) id: number): number {
    return id;
  }

  @Sse('events')
  @Locked('goods:<id>')
  events(@Query('id') id: string): Observable<string> {
    return of(id);
  }

  @Get('user/:id')
  @Locked('goods:<user.tenant>')
  user(@Param('id', ToUser) user: { tenant: string }): string {
    return user.tenant;
  }

  @Get('dropped/:id')
  @Locked('goods:<id>')
  dropped(@Param('id', Drop) id: string): string {
    return id;
  }

  @Get('custom')
  @Locked('goods:<tenant>')
  custom(@Tenant() tenant: string): string {
    return tenant;
  }

  @Get('forgotten')
  @Locked('goods:<ids>')
  forgotten(@Query('ids') ids: string[]): string {
    return String(ids);
  }

  @Get('object')
  @Locked('goods:<query>')
  object(@Query() query: Goods): string {
    return query.id;
  }

  @Get('function')
  @Locked((id: string) => resource`goods:${id}`)
  function(@Query('id') id: string): string {
    return id;
  }

  @Get('service')
  service(@Query('id') id?: string): Promise<string | undefined> {
    return this.goods.buy(id);
  }
}

@WebSocketGateway({ transports: ['websocket'] })
class GoodsGateway {
  @SubscribeMessage('buy')
  @Locked('goods:<goods.id>')
  buy(@MessageBody() goods: Goods): string {
    return goods.id;
  }

  // Nest passes the socket and the payload, because no parameter has a decorator.
  @SubscribeMessage('sell')
  @Locked('goods:<goods.id>')
  sell(_socket: unknown, goods: Goods): string {
    return goods.id;
  }
}

@Catch(LockKeyError)
class KeepInput implements ExceptionFilter {
  readonly caught: LockKeyError[] = [];
  catch(error: LockKeyError, host: ArgumentsHost): void {
    this.caught.push(error);
    host.switchToHttp().getResponse<{ status(code: number): { send(body: object): void } }>().status(418).send({});
  }
}

const json = { 'content-type': 'application/json' };

afterEach(closeApps);

describe.each(PLATFORMS)('a value that cannot form a key on %s', (platform) => {
  let app: TestApp;
  beforeEach(async () => {
    app = await startApp({ platform, controllers: [GoodsController], providers: [GoodsService] });
  });

  it.each<[string, RequestInit, string]>([
    ['/query', {}, "The query parameter 'id' is missing."],
    ['/query?id=', {}, "The query parameter 'id' is empty."],
    ['/query?id=1&id=2', {}, "The query parameter 'id' is an array; expected one value."],
    ['/whole-query?id=1&id=2', {}, "The query parameter 'id' is an array; expected one value."],
    ['/whole-query', {}, "The query parameter 'id' is missing."],
    ['/path/1', {}, "The path parameter 'size' is missing."],
    ['/header', {}, "The header 'X-Tenant' is missing."],
    ['/cookie', {}, "The cookie 'id' is missing."],
    ['/host', {}, "The host parameter 'shop' is missing."],
    ['/team', { method: 'POST', headers: json, body: '{}' }, "The body's property 'constructor' is missing."],
    ['/body', { method: 'POST' }, "The body's property 'shop.name' is missing."],
    ['/body', { method: 'POST', headers: json, body: '{}' }, "The body's property 'shop.name' is missing."],
    [
      '/body',
      { method: 'POST', headers: json, body: '{"shop":{"name":{}}}' },
      "The body's property 'shop.name' is an object; expected a string, a number or a boolean.",
    ],
    ['/property', { method: 'POST', headers: json, body: '{"id":null}' }, "The body's property 'id' is null."],
    ['/many', {}, "The query parameter 'ids' is missing."],
    ['/many?ids=1&ids=', {}, "The query parameter 'ids' has an element that is empty."],
    ['/number/seven', {}, "The path parameter 'id' is not a number."],
    ['/events', {}, "The query parameter 'id' is missing."],
  ])('is a 400 that names what the client sent: %s %j', async (path, init, message) => {
    const { status, headers, body } = await app.call(path, init);
    expect(body).toEqual({ statusCode: 400, code: 'LOCK_KEY', message, error: 'Bad Request' });
    expect([status, headers.get('retry-after')]).toEqual([400, null]);
    expect(app.logged).toEqual([]);
    expect(app.log.lines).toEqual([]);
  });

  it.each(['/user/1', '/dropped/1', '/custom', '/dropped-cookie', '/function', '/service'])(
    'is a 500 and logged if the program made it: %s',
    async (path) => {
      const { status, body } = await app.call(path);
      expect([status, body.code, body.message]).toEqual([500, 'LOCK_KEY', 'Internal Server Error']);
      expect(app.logged.join('\n')).toMatch(/ is undefined\. A lock's key needs/);
    },
  );

  it.each(['/forgotten?ids=1&ids=2', '/object?id=1'])('is a 500 if the template is wrong: %s', async (path) => {
    expect((await app.call(path)).status).toBe(500);
    expect(app.logged).toHaveLength(1);
  });

  it('locks each element of an array that the template spreads', async () => {
    expect((await app.call('/many?ids=1&ids=2')).status).toBe(200);
    expect((await app.call('/many?ids=3')).text).toBe('3');
    expect(app.log.lines).toEqual(expect.arrayContaining(['granted goods:1', 'granted goods:2', 'granted goods:3']));
  });
});

it('gives filters the placeholder and what the client sent', async () => {
  const filter = new KeepInput();
  const app = await startApp({
    controllers: [GoodsController],
    providers: [GoodsService],
    prepare: (nest) => nest.useGlobalFilters(filter),
  });
  expect((await app.call('/whole-query')).status).toBe(418);
  expect((await app.call('/custom')).status).toBe(418);
  expect(filter.caught.map(({ placeholder, input }) => ({ placeholder, input }))).toEqual([
    {
      placeholder: { text: '<query.id>', index: 0, path: ['id'], spread: false },
      input: { in: 'query', name: 'id', problem: 'is missing' },
    },
    { placeholder: { text: '<tenant>', index: 0, path: [], spread: false }, input: undefined },
  ]);
});

it('http.status of LOCK_KEY is for clients only', async () => {
  const locks = { http: { status: { LOCK_KEY: 422 } } };
  const app = await startApp({ controllers: [GoodsController], providers: [GoodsService], locks });
  expect((await app.call('/query')).body).toMatchObject({ statusCode: 422, error: 'Unprocessable Entity' });
  expect((await app.call('/custom')).status).toBe(500);
});

it.each(['buy', 'sell'])('names the property of a message of a gateway: %s', async (event) => {
  const app = await startApp({ providers: [GoodsGateway] });
  const socket = io(app.url, { transports: ['websocket'], reconnection: false });
  await once(socket as never, 'connect');
  const exception = once(socket as never, 'exception');
  socket.emit(event, { id: ['1', '2'] });
  const message = "The payload's property 'id' is an array; expected one value.";
  expect(await exception).toEqual([{ status: 'error', code: 'LOCK_KEY', message }]);
  expect(app.logged).toEqual([]);
  socket.disconnect();
});
