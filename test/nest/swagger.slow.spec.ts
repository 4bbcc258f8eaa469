// What @nestjs/swagger reads of locked routes and of the board.
import { Body, Controller, Param, ParseIntPipe, Post, SetMetadata } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { ApiOkResponse, ApiOperation, ApiProperty, ApiTags, DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Locked } from 'nestjs-redis-lock';
import { startBoard } from './board/support.js';
import { addPlatform, closeApps, startApp } from './support/app.js';

addPlatform('fastify', () => new FastifyAdapter());
afterEach(closeApps);

describe('the metadata of a locked route', () => {
  class OrderDto {
    @ApiProperty({ minimum: 1 })
    pieces!: number;
  }

  @ApiTags('goods')
  @Controller('plain')
  class PlainController {
    @Post(':id')
    @SetMetadata('roles', ['buyer'])
    @ApiOperation({ summary: 'Buys goods' })
    @ApiOkResponse({ type: OrderDto, description: 'bought' })
    buy(@Param('id', ParseIntPipe) _id: number, @Body() order: OrderDto): OrderDto {
      return order;
    }
  }

  @ApiTags('goods')
  @Controller('above')
  class AboveController {
    @Locked('goods:<id>')
    @Post(':id')
    @SetMetadata('roles', ['buyer'])
    @ApiOperation({ summary: 'Buys goods' })
    @ApiOkResponse({ type: OrderDto, description: 'bought' })
    async buy(@Param('id', ParseIntPipe) _id: number, @Body() order: OrderDto): Promise<OrderDto> {
      return order;
    }
  }

  @ApiTags('goods')
  @Controller('below')
  class BelowController {
    @Post(':id')
    @SetMetadata('roles', ['buyer'])
    @ApiOperation({ summary: 'Buys goods' })
    @ApiOkResponse({ type: OrderDto, description: 'bought' })
    @Locked('goods:<id>')
    async buy(@Param('id', ParseIntPipe) _id: number, @Body() order: OrderDto): Promise<OrderDto> {
      return order;
    }
  }

  it.each(['express', 'fastify'] as const)(
    'is that of an unlocked one, for Swagger and guards (%s)',
    async (platform) => {
      const app = await startApp({ platform, controllers: [PlainController, AboveController, BelowController] });
      const { paths } = SwaggerModule.createDocument(app.nest, new DocumentBuilder().build());
      const documented = (route: string): unknown =>
        JSON.parse(JSON.stringify(paths[`/${route}/{id}`]).replaceAll(/Above|Below/g, 'Plain'));
      expect(documented('plain')).toMatchObject({ post: { summary: 'Buys goods', tags: ['goods'] } });
      expect(documented('above')).toEqual(documented('plain'));
      expect(documented('below')).toEqual(documented('plain'));
      for (const { prototype } of [AboveController, BelowController]) {
        const buy = Object.getOwnPropertyDescriptor(prototype, 'buy')?.value as () => unknown;
        expect(app.nest.get(Reflector).get('roles', buy)).toEqual(['buyer']);
      }
    },
  );
});

it.each(['express', 'fastify'] as const)('the board is not part of the API (%s)', async (platform) => {
  const app = await startBoard({}, { platform });
  expect(SwaggerModule.createDocument(app.nest, new DocumentBuilder().build()).paths).toEqual({});
});
