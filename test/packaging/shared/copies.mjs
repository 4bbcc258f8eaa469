// Run by node in a consumer: three copies of the package in one process. The ES module, the CommonJS module of the same
// install, and another install of the same version. A fourth install has another version.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import { NestFactory } from '@nestjs/core';
import * as esm from 'nestjs-redis-lock';
import { withLocks } from 'nestjs-redis-lock/testing';

const requireFrom = (folder) => createRequire(new URL(`${folder}main.js`, import.meta.url))('nestjs-redis-lock');
const cjs = requireFrom('./');
const second = requireFrom('./second/');
const newer = requireFrom('./newer/');
const redis = process.env.TEST_REDIS_URL;
const prefix = `consumer_${randomBytes(6).toString('hex')}_`;

/** What TypeScript makes of a class with `@Locked` and an injected LockService. */
function goodsOf({ Locked, LockService }) {
  class GoodsService {
    constructor(locks) {
      this.locks = locks;
    }

    async buy(_id, inside) {
      return inside();
    }
  }
  const descriptor = Object.getOwnPropertyDescriptor(GoodsService.prototype, 'buy');
  Reflect.defineMetadata('design:paramtypes', [LockService], GoodsService);
  Locked('goods:<0>', { waitMs: 20_000 })(GoodsService.prototype, 'buy', descriptor);
  Object.defineProperty(GoodsService.prototype, 'buy', descriptor);
  return GoodsService;
}

function start(imports, providers = []) {
  const module = { module: function AppModule() {}, imports, providers };
  return NestFactory.createApplicationContext(module, { logger: ['error', 'warn'], abortOnError: false });
}

async function checkOneVersion() {
  const copies = { esm, cjs, second };
  assert.equal(new Set([esm.LockService, cjs.LockService, second.LockService, newer.LockService]).size, 4);
  const providers = Object.entries(copies).map(([provide, copy]) => ({ provide, useClass: goodsOf(copy) }));
  for (const copy of Object.values(copies)) {
    const app = await start([copy.RedisLockModule.forRoot({ redis, prefix })], providers);
    for (const outer of Object.keys(copies)) {
      for (const inner of Object.keys(copies)) {
        // It would wait for itself for 20 s.
        const nested = () => app.get(inner).buy(1, () => app.get(outer).locks.current('goods:1')?.resource);
        assert.equal(await app.get(outer).buy(1, nested), 'goods:1');
      }
      assert.equal(app.get(outer).locks, app.get(copy.LockService));
    }
    await app.close();
  }
  assert.equal(await withLocks(new (goodsOf(cjs))()).buy(1, () => 1), 1);
}

async function checkErrors() {
  const two = start([
    esm.RedisLockModule.forRoot({ redis, prefix }),
    second.RedisLockModule.forRoot({ redis, prefix }),
  ]);
  await assert.rejects(two, {
    code: 'LOCK_CONFIG',
    message: /two copies of nestjs-redis-lock .*: \S+\/nestjs-redis-lock\/dist\/esm and \S+\/second\/\S+\/dist\/cjs\./,
  });
  const both = { code: 'LOCK_CONFIG', message: /9\.9\.9 in \S+\/newer\/\S+\/dist\/cjs, and \d\S+ in \S+\/dist\/esm\./ };
  const other = start(
    [esm.RedisLockModule.forRoot({ redis, prefix })],
    [{ provide: 'goods', useClass: goodsOf(newer) }],
  );
  await assert.rejects(other, both);
  const modules = start([
    newer.RedisLockModule.forRoot({ redis, prefix, name: 'newer' }),
    esm.RedisLockModule.forRoot({ redis, prefix }),
  ]);
  await assert.rejects(modules, both);
  // Apart they work as before.
  for (const copy of [esm, newer]) {
    const app = await start([copy.RedisLockModule.forRoot({ redis, prefix })]);
    assert.equal(await app.get(copy.LockService).using('goods:1', () => 1), 1);
    await app.close();
  }
}

await checkOneVersion();
await checkErrors();
process.stdout.write('all copies work\n');
