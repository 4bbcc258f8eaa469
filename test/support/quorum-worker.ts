// The main of a forked process: takes goods:300 again and again, and counts on another Redis, reading and writing apart.
import { Logger } from '@nestjs/common';
import { Redis } from 'ioredis';
import { LockRuntime } from '../../lib/lock-runtime.js';
import { quorum } from '../../lib/stores/quorum/quorum.store.js';

interface Orders {
  readonly nodes: readonly string[];
  readonly ledger: string;
  readonly prefix: string;
  readonly visits: number;
}

async function work({ nodes, ledger, prefix, visits }: Orders): Promise<void> {
  const redis = new Redis(ledger);
  const runtime = LockRuntime.start({ prefix, waitMs: 60_000, ttlMs: 2_000, store: quorum(nodes) });
  runtime.connect();
  for (let i = 0; i < visits; i++) {
    await runtime.service.using('goods:300', async (lock) => {
      const count = Number(await redis.get(`${prefix}count`));
      await redis.rpush(`${prefix}tokens`, lock.fencingToken);
      await redis.set(`${prefix}count`, count + 1);
    });
  }
  await runtime.close();
  await redis.quit();
}

Logger.overrideLogger(false);
process.on('disconnect', () => process.exit());
work(JSON.parse(process.argv[2]) as Orders).then(
  () => process.exit(0),
  (error: unknown) => process.send?.(String(error), () => process.exit(1)),
);
