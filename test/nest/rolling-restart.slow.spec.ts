import type { ChildProcess } from 'node:child_process';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { eventually } from '../support/async.js';
import { Balancer } from '../support/balancer.js';
import { forkSource } from '../support/lock-process.js';
import { type RedisServer, startRedis } from '../support/redis/index.js';
import { uniquePrefix } from '../support/shared-redis.js';
import type { ShopEvent, ShopOptions } from '../support/shop-app.js';

/** An application in its own process. */
class Shop {
  readonly logged: string[] = [];
  port = 0;
  private readonly child: ChildProcess;
  private readonly exited: Promise<string | null>;

  constructor(options: ShopOptions) {
    this.child = forkSource('shop-app.ts', options, { NODE_ENV: 'production' });
    this.child.on('message', (event: ShopEvent) => {
      if (event.event === 'listening') this.port = event.port;
      else this.logged.push(event.line);
    });
    this.exited = new Promise((resolve) => this.child.once('exit', (_code, signal) => resolve(signal)));
  }

  async listening(): Promise<number> {
    await eventually('the shop listens', () => this.port !== 0);
    return this.port;
  }

  /** Returns the signal that has ended the process. */
  stop(signal: 'SIGTERM' | 'SIGKILL'): Promise<string | null> {
    this.child.kill(signal);
    return this.exited;
  }
}

let server: RedisServer;
let balancer: Balancer;
let shops: Shop[] = [];

async function open(prefix: string, hooks: ShopOptions['hooks'] = 'before listen'): Promise<Shop> {
  const shop = new Shop({ redis: server.url, prefix, hooks });
  shops.push(shop);
  await shop.listening();
  return shop;
}

async function openBehindBalancer(prefix: string): Promise<Shop> {
  const shop = await open(prefix);
  balancer.add(shop.port);
  await eventually('the balancer has noticed the shop', () => balancer.isReady(shop.port));
  return shop;
}

beforeEach(async () => {
  server = await startRedis({ local: true });
  balancer = await Balancer.start();
});

afterEach(async () => {
  await Promise.all(shops.map((shop) => shop.stop('SIGKILL')));
  shops = [];
  await balancer.close();
  await server.stop();
});

describe('three processes behind a balancer that follows their readiness', () => {
  it('restart one after the other under load, and no request fails', async () => {
    const prefix = uniquePrefix();
    const running = await Promise.all([1, 2, 3].map(() => openBehindBalancer(prefix)));
    const responses: string[] = [];
    const over = new AbortController();
    const client = async (nth: number): Promise<void> => {
      while (!over.signal.aborted) {
        const response = await fetch(`${balancer.url}/${['buy', 'pay', 'report'][nth % 3]}/${nth % 4}`);
        responses.push(`${response.status} ${await response.text()}`);
      }
    };
    const clients = Array.from({ length: 18 }, (_, nth) => client(nth));
    const stopped: (string | null)[] = [];
    for (const shop of running) {
      const before = responses.length;
      await eventually('requests are served', () => responses.length > before + 20);
      stopped.push(await shop.stop('SIGTERM'));
      balancer.remove(shop.port);
      await openBehindBalancer(prefix);
    }
    over.abort();
    await Promise.all(clients);
    expect(responses.filter((line) => !line.startsWith('200 '))).toEqual([]);
    expect(stopped).toEqual(['SIGTERM', 'SIGTERM', 'SIGTERM']);
    // Otherwise this would not have tested a shutdown.
    expect(responses.filter((line) => line.endsWith(' late')).length).toBeGreaterThan(0);
    expect(shops.flatMap(({ logged }) => logged)).toEqual([]);
    const redis = new Redis(server.url);
    const left = (await redis.keys('*')).filter((key) => !key.endsWith('|fence'));
    await redis.quit();
    expect(left).toEqual([]);
  });
});

describe('a process that starts', () => {
  it('warns once if no signal would shut it down', async () => {
    const prefix = uniquePrefix();
    const [before, after, without] = await Promise.all(
      (['before listen', 'after listen', 'never'] as const).map((hooks) => open(prefix, hooks)),
    );
    await eventually('the warning', () => without.logged.length > 0);
    expect(without.logged).toEqual([expect.stringContaining('Nothing in this process listens to SIGTERM or SIGINT.')]);
    // All were listening when the time of the one that warns was over, or begins.
    await new Promise((resolve) => setTimeout(resolve, 6_000));
    expect([before.logged, after.logged, without.logged.length]).toEqual([[], [], 1]);
  });
});
