import { Injectable, Module, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { type EndedEvent, lockChannels, type LostEvent, RedisLockModule } from 'nestjs-redis-lock';
import { LoggerModule, PinoLogger } from 'nestjs-pino';

/** Logs events of locks with their fields, in addition to the module's own lines. */
@Injectable()
export class LockLog implements OnModuleInit, OnModuleDestroy {
  constructor(private readonly logger: PinoLogger) {
    logger.setContext(LockLog.name);
  }

  private readonly onReleased = (message: unknown): void => {
    const { resource, heldMs } = message as EndedEvent;
    this.logger.debug({ resource, heldMs }, 'lock released');
  };

  private readonly onLost = (message: unknown): void => {
    const { resource, heldMs, reason } = message as LostEvent;
    this.logger.error({ resource, heldMs, err: reason }, 'lock lost');
  };

  onModuleInit(): void {
    lockChannels.released.subscribe(this.onReleased);
    lockChannels.lost.subscribe(this.onLost);
  }

  onModuleDestroy(): void {
    lockChannels.released.unsubscribe(this.onReleased);
    lockChannels.lost.unsubscribe(this.onLost);
  }
}

@Module({
  imports: [
    LoggerModule.forRoot({ pinoHttp: { level: 'debug' } }),
    RedisLockModule.forRoot({ redis: process.env['REDIS_URL'] }),
  ],
  providers: [LockLog],
})
export class AppModule {}
