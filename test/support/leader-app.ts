// The main of a forked process: a Nest application with a method that runs while its process leads. It reports each
// term to its parent, and ends at SIGTERM by Nest's shutdown hooks.
import { Injectable, Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type Lock, type LockLostError, RedisLockModule, WhileLeader } from 'nestjs-redis-lock';

/** What the process reports to its parent. */
export type LeaderEvent =
  | { readonly event: 'started' }
  | { readonly event: 'elected'; readonly token: number }
  | { readonly event: 'deposed'; readonly reason: string };

Logger.overrideLogger(false);
const { redis, prefix, ttlMs } = JSON.parse(process.argv[2]) as { redis: string; prefix: string; ttlMs: number };
const report = (event: LeaderEvent): void => void process.send?.(event);

@Injectable()
class Reports {
  @WhileLeader('report', { ttlMs })
  async run(signal: AbortSignal, { fencingToken }: Lock): Promise<void> {
    report({ event: 'elected', token: fencingToken });
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    report({ event: 'deposed', reason: (signal.reason as LockLostError).name });
  }
}

@Module({ imports: [RedisLockModule.forRoot({ redis, prefix })], providers: [Reports] })
class AppModule {}

process.on('disconnect', () => process.exit());
const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
app.enableShutdownHooks();
report({ event: 'started' });
