// Run by node in a consumer: the ES module beside the CommonJS module in one process, as before Node 20.19.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import { NestFactory } from '@nestjs/core';
import * as esm from 'nestjs-redis-lock';

const cjs = createRequire(import.meta.url)('nestjs-redis-lock');
const redis = process.env.TEST_REDIS_URL;
const prefix = `consumer_${randomBytes(6).toString('hex')}_`;

/** What TypeScript makes of a class with `@Locked`. */
function goodsOf({ Locked }) {
  class GoodsService {
    async buy(_id, inside) {
      return inside();
    }
  }
  const descriptor = Object.getOwnPropertyDescriptor(GoodsService.prototype, 'buy');
  Locked('goods:<0>', { waitMs: 20_000 })(GoodsService.prototype, 'buy', descriptor);
  Object.defineProperty(GoodsService.prototype, 'buy', descriptor);
  return new GoodsService();
}

assert.notEqual(esm.LockService, cjs.LockService);
for (const [ours, theirs] of [
  [esm, cjs],
  [cjs, esm],
]) {
  const module = { module: function AppModule() {}, imports: [ours.RedisLockModule.forRoot({ redis, prefix })] };
  const app = await NestFactory.createApplicationContext(module, { logger: ['error', 'warn'], abortOnError: false });
  const locks = app.get(ours.LockService);
  const goods = theirs.bindLocks(goodsOf(theirs), locks);
  // A call that did not nest would wait for itself for 20 s.
  assert.equal(await locks.using('goods:1', () => goods.buy(1, () => 'nested')), 'nested');
  assert.equal(await goods.buy(1, () => locks.using('goods:1', () => 'nested')), 'nested');
  const isKept = async () => {
    await goods.buy(1, () => 1);
    return (await locks.inspect('goods:1')) !== null;
  };
  assert.equal(await theirs.runInLockScope(isKept), true);
  assert.equal(await locks.inspect('goods:1'), null);
  await assert.rejects(locks.acquire(''), (error) => error instanceof theirs.LockKeyError);
  await app.close();
}
process.stdout.write('both formats work\n');
