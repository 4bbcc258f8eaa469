import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import type { RunningLocks } from './locks.js';
import { OTHER_RELEASE, PREFIX, type WorkerTask } from './orders.js';

type Library = Pick<typeof import('nestjs-redis-lock'), 'LockService' | 'RedisLockModule'>;

/** Starts an application with a frozen release, on the token store. It uses only what every release exports. */
export async function startRelease({ release, places, terms }: WorkerTask): Promise<RunningLocks> {
  const { LockService, RedisLockModule } = (await import(String(release))) as Library;
  const [redis] = places;
  const module = RedisLockModule.forRoot({
    redis,
    prefix: PREFIX,
    identity: OTHER_RELEASE,
    shutdownGraceMs: 2_000,
    ...terms,
  });
  const app = await NestFactory.createApplicationContext(module, { logger: false });
  const close = (): Promise<void> => app.close();
  return { service: app.get(LockService), shutDown: close, close };
}
