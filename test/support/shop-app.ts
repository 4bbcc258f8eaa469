// The main of a forked process: a shop with locks that listens to HTTP. It ends at SIGTERM by Nest's shutdown hooks, if
// it is to have any. It reports its port, and what its log warns of.
import type { AddressInfo } from 'node:net';
import type { Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  Controller,
  Get,
  Header,
  type LoggerService,
  Module,
  Param,
  ServiceUnavailableException,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Locked, LockService, RedisLockModule } from 'nestjs-redis-lock';

/** How a shop is started. */
export interface ShopOptions {
  readonly redis: string;
  readonly prefix: string;
  /** When it calls `enableShutdownHooks()`. */
  readonly hooks: 'before listen' | 'after listen' | 'never';
}

/** What the process reports to its parent. */
export type ShopEvent =
  { readonly event: 'listening'; readonly port: number } | { readonly event: 'logged'; readonly line: string };

/** Longer than a request that the balancer has sent may need to arrive. */
const ARRIVAL_MS = 300;

const { redis, prefix, hooks } = JSON.parse(process.argv[2]) as ShopOptions;
const report = (event: ShopEvent): void => void process.send?.(event);

@Controller()
class ShopController {
  private refusals = 0;
  private onNoticed: (() => void) | undefined;

  constructor(private readonly locks: LockService) {}

  @Get('buy/:id')
  @Locked('goods:<id>')
  async buy(@Param('id') id: string): Promise<string> {
    await sleep(20);
    return this.sold(id);
  }

  @Get('pay/:id')
  async pay(@Param('id') id: string): Promise<string> {
    // Not under a lock yet, so that a shutdown may begin in between.
    await sleep(5);
    return this.locks.using(`goods:${id}`, async () => {
      await sleep(20);
      return this.locks.using([`account:${id}`, 'account:shop'], () => this.sold(id));
    });
  }

  /** Its callers wait for longer than the balancer needs to notice a shutdown. */
  @Get('report/:id')
  @Locked('report')
  async report(@Param('id') id: string): Promise<string> {
    await sleep(600);
    return this.sold(id);
  }

  @Get('ready')
  @Header('cache-control', 'no-store')
  ready(): string {
    if (!this.locks.isShuttingDown) return 'ready';
    this.refusals += 1;
    if (this.refusals === 2) this.onNoticed?.();
    throw new ServiceUnavailableException('shutting down');
  }

  /** Waits until the balancer has noticed, instead of for a time. */
  async beforeApplicationShutdown(): Promise<void> {
    if (this.refusals < 2) await new Promise<void>((resolve) => (this.onNoticed = resolve));
    await sleep(ARRIVAL_MS);
  }

  private sold(id: string): string {
    return this.locks.isShuttingDown ? `${id} late` : id;
  }
}

@Module({
  imports: [RedisLockModule.forRoot({ redis, prefix, waitMs: 30_000, shutdownGraceMs: 60_000 })],
  controllers: [ShopController],
})
class AppModule {}

const log = (line: unknown): void => report({ event: 'logged', line: String(line) });
const logger: LoggerService = { log: () => undefined, warn: log, error: log };

process.on('disconnect', () => process.exit());
const app = await NestFactory.create(AppModule, { logger });
if (hooks === 'before listen') app.enableShutdownHooks();
await app.listen(0, '127.0.0.1');
if (hooks === 'after listen') app.enableShutdownHooks();
report({ event: 'listening', port: ((app.getHttpServer() as Server).address() as AddressInfo).port });
