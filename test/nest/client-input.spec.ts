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
} from '@nestjs/common';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Locked, LockKeyError, resource } from 'nestjs-redis-lock';
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
  async query(@Query('id') id: string): Promise<string> {
    return id;
  }

  @Get('whole-query')
  @Locked('goods:<query.id>')
  async wholeQuery(@Query() query: Goods): Promise<string> {
    return query.id;
  }

  @Get('path/:id')
  @Locked('goods:<params.size>')
  async path(@Param() params: { size: string }): Promise<string> {
    return params.size;
  }

  @Get('header')
  @Locked('goods:<0>')
  async header(@Headers('X-Tenant') tenant: string): Promise<string> {
    return tenant;
  }

  @Get('cookie')
  @Locked('goods:<id>')
  async cookie(@Cookies('id') id: string): Promise<string> {
    return id;
  }

  @Get('host')
  @Locked('goods:<shop>')
  async host(@HostParam('shop') shop: string): Promise<string> {
    return shop;
  }

  @Post('body')
  @Locked('goods:<goods.shop.name>')
  async body(@Body() goods: Goods): Promise<string> {
    return goods.id;
  }

  @Post('property')
  @Locked('goods:<id>')
  async property(@Body('id') id: string): Promise<string> {
    return id;
  }

  @Get('many')
  @Locked('goods:<...ids>')
  async many(@Query('ids') ids: string[]): Promise<string> {
    return String(ids);
  }

  @Get('number/:id')
  @Locked('goods:<id>')
  async number(@Param('id', ToNumber) id: number): Promise<number> {
    return id;
  }

  @Get('dropped/:id')
  @Locked('goods:<id>')
  async dropped(@Param('id', Drop) id: string): Promise<string> {
    return id;
  }

  @Get('custom')
  @Locked('goods:<tenant>')
  async custom(@Tenant() tenant: string): Promise<string> {
    return tenant;
  }

  @Get('function')
  @Locked((id: string) => resource`goods:${id}`)
  async function(@Query('id') id: string): Promise<string> {
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
  async buy(@MessageBody() goods: Goods): Promise<string> {
    return goods.id;
  }

  // Nest passes the socket and the payload, because no parameter has a decorator.
  @SubscribeMessage('sell')
  @Locked('goods:<goods.id>')
  async sell(_socket: unknown, goods: Goods): Promise<string> {
    return goods.id;
  }
}

@Catch(LockKeyError)
class KeepError implements ExceptionFilter {
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

  it.each<[path: string, init: RequestInit, placeholder: string]>([
    ['/query', {}, 'id'],
    ['/query?id=', {}, 'id'],
    ['/query?id=1&id=2', {}, 'id'],
    ['/query?id[name]=1', {}, 'id'],
    ['/whole-query', {}, 'query.id'],
    ['/path/1', {}, 'params.size'],
    ['/header', {}, '0'],
    ['/cookie', {}, 'id'],
    ['/host', {}, 'shop'],
    ['/body', { method: 'POST' }, 'goods.shop.name'],
    ['/body', { method: 'POST', headers: json, body: '{"shop":{"name":{}}}' }, 'goods.shop.name'],
    ['/property', { method: 'POST', headers: json, body: '{"id":null}' }, 'id'],
    ['/many', {}, 'ids'],
    ['/many?ids=1&ids=', {}, 'ids'],
    ['/number/seven', {}, 'id'],
    ['/dropped/1', {}, 'id'],
  ])('is a 400 that names the placeholder, if it came with the request: %s %j', async (path, init, placeholder) => {
    const { status, headers, body } = await app.call(path, init);
    const message = `The value of '${placeholder}' is missing or invalid.`;
    expect(body).toEqual({ statusCode: 400, code: 'LOCK_KEY', message, error: 'Bad Request' });
    expect([status, headers.get('retry-after')]).toEqual([400, null]);
    expect(app.logged).toEqual([]);
    expect(app.log.lines).toEqual([]);
  });

  it.each(['/custom', '/function', '/service'])('is a 500 and logged if the program made it: %s', async (path) => {
    const { status, body } = await app.call(path);
    expect([status, body.code, body.message]).toEqual([500, 'LOCK_KEY', 'Internal Server Error']);
    expect(app.logged.join('\n')).toMatch(/ is undefined\. A lock's key needs/);
  });

  it('locks each element of an array that the template spreads', async () => {
    expect((await app.call('/many?ids=1&ids=2')).status).toBe(200);
    expect((await app.call('/many?ids=3')).text).toBe('3');
    expect(app.log.lines).toEqual(expect.arrayContaining(['granted goods:1', 'granted goods:2', 'granted goods:3']));
  });
});

it('gives filters the placeholder, and says who sent the value', async () => {
  const filter = new KeepError();
  const app = await startApp({
    controllers: [GoodsController],
    providers: [GoodsService],
    prepare: (nest) => nest.useGlobalFilters(filter),
  });
  expect((await app.call('/whole-query')).status).toBe(418);
  expect((await app.call('/custom')).status).toBe(418);
  expect(filter.caught).toMatchObject([
    { placeholder: { text: '<query.id>', index: 0, path: ['id'], spread: false }, byClient: true },
    { placeholder: { text: '<tenant>', index: 0, path: [], spread: false }, byClient: false },
  ]);
});

it('http.status of LOCK_KEY is for clients only', async () => {
  const locks = { http: { status: { LOCK_KEY: 422 } } };
  const app = await startApp({ controllers: [GoodsController], providers: [GoodsService], locks });
  expect((await app.call('/query')).body).toMatchObject({ statusCode: 422, error: 'Unprocessable Entity' });
  expect((await app.call('/custom')).status).toBe(500);
});

it.each(['buy', 'sell'])('names the placeholder of a message of a gateway: %s', async (event) => {
  const app = await startApp({ providers: [GoodsGateway] });
  const socket = io(app.url, { transports: ['websocket'], reconnection: false });
  await once(socket as never, 'connect');
  const exception = once(socket as never, 'exception');
  socket.emit(event, { id: ['1', '2'] });
  const message = "The value of 'goods.id' is missing or invalid.";
  expect(await exception).toEqual([{ status: 'error', code: 'LOCK_KEY', message }]);
  expect(app.logged).toEqual([]);
  socket.disconnect();
});
