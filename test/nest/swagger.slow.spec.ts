// What @nestjs/swagger reads of locked routes and of the board.
import { Body, Controller, Param, ParseIntPipe, Post, SetMetadata, type Type } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { ApiOkResponse, ApiOperation, ApiProperty, ApiTags, DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Locked } from 'nestjs-redis-lock';
import { startBoard } from './board/support.js';
import { addPlatform, closeApps, startApp } from './support/app.js';
import { stack } from './support/goods-controller.js';

addPlatform('fastify', () => new FastifyAdapter());
afterEach(closeApps);

describe('the metadata of a locked route', () => {
  class OrderDto {
    @ApiProperty({ minimum: 1 })
    pieces!: number;
  }

  const api = [
    Post(':id'),
    SetMetadata('roles', ['buyer']),
    ApiOperation({ summary: 'Buys goods' }),
    ApiOkResponse({ type: OrderDto, description: 'bought' }),
  ];
  const routeOf = (path: string, ...decorators: unknown[]): Type => {
    @ApiTags('goods')
    @Controller(path)
    class GoodsController {
      @stack(...decorators)
      async buy(@Param('id', ParseIntPipe) _id: number, @Body() order: OrderDto): Promise<OrderDto> {
        return order;
      }
    }
    return GoodsController;
  };

  it.each(['express', 'fastify'] as const)(
    'is that of an unlocked one, for Swagger and guards (%s)',
    async (platform) => {
      const locked = [routeOf('above', Locked('goods:<id>'), ...api), routeOf('below', ...api, Locked('goods:<id>'))];
      const app = await startApp({ platform, controllers: [routeOf('plain', ...api), ...locked] });
      const { paths } = SwaggerModule.createDocument(app.nest, new DocumentBuilder().build());
      expect(paths['/plain/{id}']).toMatchObject({ post: { summary: 'Buys goods', tags: ['goods'] } });
      expect(paths['/above/{id}']).toEqual(paths['/plain/{id}']);
      expect(paths['/below/{id}']).toEqual(paths['/plain/{id}']);
      for (const { prototype } of locked) {
        const buy = Reflect.get(prototype as object, 'buy') as () => unknown;
        expect(app.nest.get(Reflector).get('roles', buy)).toEqual(['buyer']);
      }
    },
  );
});

it.each(['express', 'fastify'] as const)('the board is not part of the API (%s)', async (platform) => {
  const app = await startBoard({}, { platform });
  expect(SwaggerModule.createDocument(app.nest, new DocumentBuilder().build()).paths).toEqual({});
});
