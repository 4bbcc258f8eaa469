import { Body, Controller, Get, HttpCode, Param, ParseIntPipe, Post, SetMetadata } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ApiOkResponse, ApiOperation, ApiProperty, ApiTags, DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { afterEach, expect, it } from '@jest/globals';
import { Locked } from 'nestjs-redis-lock';
import { closeApps, PLATFORMS, startApp } from './support/app.js';

class OrderDto {
  @ApiProperty({ minimum: 1 })
  pieces!: number;
}

@ApiTags('goods')
@Controller('plain')
class PlainController {
  @Post(':id')
  @HttpCode(200)
  @SetMetadata('roles', ['buyer'])
  @ApiOperation({ summary: 'Buys goods' })
  @ApiOkResponse({ type: OrderDto, description: 'bought' })
  buy(@Param('id', ParseIntPipe) _id: number, @Body() order: OrderDto): OrderDto {
    return order;
  }

  @Get()
  list(): string[] {
    return [];
  }
}

@ApiTags('goods')
@Controller('above')
class AboveController {
  @Locked('goods:<id>')
  @Post(':id')
  @HttpCode(200)
  @SetMetadata('roles', ['buyer'])
  @ApiOperation({ summary: 'Buys goods' })
  @ApiOkResponse({ type: OrderDto, description: 'bought' })
  async buy(@Param('id', ParseIntPipe) _id: number, @Body() order: OrderDto): Promise<OrderDto> {
    return order;
  }

  @Locked('goods')
  @Get()
  async list(): Promise<string[]> {
    return [];
  }
}

@ApiTags('goods')
@Controller('below')
class BelowController {
  @Post(':id')
  @HttpCode(200)
  @SetMetadata('roles', ['buyer'])
  @ApiOperation({ summary: 'Buys goods' })
  @ApiOkResponse({ type: OrderDto, description: 'bought' })
  @Locked('goods:<id>')
  async buy(@Param('id', ParseIntPipe) _id: number, @Body() order: OrderDto): Promise<OrderDto> {
    return order;
  }

  @Get()
  @Locked('goods')
  async list(): Promise<string[]> {
    return [];
  }
}

afterEach(closeApps);

it.each(PLATFORMS)('Swagger on %s documents a locked route like an unlocked one', async (platform) => {
  const app = await startApp({ platform, controllers: [PlainController, AboveController, BelowController] });
  const { paths } = SwaggerModule.createDocument(app.nest, new DocumentBuilder().build());
  const documented = (route: string): unknown =>
    JSON.parse(JSON.stringify([paths[`/${route}/{id}`], paths[`/${route}`]]).replaceAll(/Above|Below/g, 'Plain'));
  expect(documented('plain')).toMatchObject([{ post: { summary: 'Buys goods', tags: ['goods'] } }, { get: {} }]);
  expect(documented('above')).toEqual(documented('plain'));
  expect(documented('below')).toEqual(documented('plain'));
});

it.each(['above', 'below'])('a locked route works as documented, with metadata for guards (%s)', async (place) => {
  const app = await startApp({ controllers: [PlainController, AboveController, BelowController] });
  const { status, body } = await app.call(`/${place}/7`, {
    method: 'POST',
    body: JSON.stringify({ pieces: 2 }),
    headers: { 'content-type': 'application/json' },
  });
  expect([status, body]).toEqual([200, { pieces: 2 }]);
  expect(app.log.lines).toContain('granted goods:7');
  const { prototype } = place === 'above' ? AboveController : BelowController;
  const buy = Object.getOwnPropertyDescriptor(prototype, 'buy')?.value as () => unknown;
  expect(app.nest.get(Reflector).get('roles', buy)).toEqual(['buyer']);
});
