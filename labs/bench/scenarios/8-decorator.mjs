// Measures how much more a `@Locked` method costs than `using` by hand, in a Nest application.
import { load, nest } from '../library.mjs';
import { interleaved, median, medianOf, rowsOf } from '../measure.mjs';
import { startRedis } from '../redis.mjs';
import { roundsOf } from '../settings.mjs';
import { stated } from '../targets.mjs';

const { Inject, Injectable, NestFactory } = nest;
const { Locked, LockService, RedisLockModule } = await load('index.js');

class GoodsService {
  constructor(locks) {
    this.locks = locks;
  }

  async locked(id) {
    return id;
  }

  byHand(id) {
    return this.locks.using(`goods:${id}`, async () => id);
  }
}

// Node has no decorator syntax, so the decorator is applied by hand, as a compiler does.
Injectable()(GoodsService);
Inject(LockService)(GoodsService, undefined, 0);
const descriptor = Object.getOwnPropertyDescriptor(GoodsService.prototype, 'locked');
Locked('goods:<id>')(GoodsService.prototype, 'locked', descriptor);
Object.defineProperty(GoodsService.prototype, 'locked', descriptor);

export async function run(plan) {
  const redis = await startRedis();
  const locks = RedisLockModule.forRoot({ redis: redis.url });
  const root = { ...locks, providers: [...(locks.providers ?? []), GoodsService] };
  const app = await NestFactory.createApplicationContext(root, { logger: false });
  const goods = app.get(GoodsService);

  const [slices, calls] = [plan.quick ? 20 : 50, 100];
  const compared = [
    { name: '`using` by hand', kind: 'floor', call: () => goods.byHand(300) },
    { name: '`@Locked` method', kind: 'ours', call: () => goods.locked(300) },
  ];
  const turn = async ({ call }) => {
    const waits = new Float64Array(calls);
    for (let i = 0; i < calls; i++) {
      const start = performance.now();
      if ((await call()) !== 300) throw new Error('a wrong result');
      waits[i] = performance.now() - start;
    }
    return { figures: { us: (waits.reduce((total, each) => total + each, 0) / calls) * 1000 }, waits };
  };
  const measured = await interleaved({ entries: compared, rounds: roundsOf(plan), slices, turn });
  await app.close();
  await redis.stop();
  const [byHand, locked] = compared.map(({ name }) => measured.get(name));
  const added = median(locked.rounds.map(({ us }, i) => us - byHand.rounds[i].us));
  return [
    {
      id: '8',
      title: '`@Locked` method beside `using` by hand',
      method: `${slices} times ${calls} calls of a provider's method a round, one after the other, in an application context.`,
      columns: [{ figure: 'us', title: 'µs a call', digits: 1 }],
      tail: 'a call',
      rows: rowsOf(compared, measured),
      targets: [stated('added', added, 'µs'), stated('÷ by hand', medianOf(locked, 'us') / medianOf(byHand, 'us'))],
    },
  ];
}
