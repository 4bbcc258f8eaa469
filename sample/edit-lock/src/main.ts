import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedisLockModule } from 'nestjs-redis-lock';
import { EditLockModule } from './edit-lock.module.js';

const redis = process.env['REDIS_URL'] || 'redis://127.0.0.1:6379';

@Module({ imports: [RedisLockModule.forRoot({ redis, prefix: 'edit-lock_' }), EditLockModule] })
class AppModule {}

async function bootstrap(): Promise<void> {
  const app = await NestFactory.create(AppModule, { logger: ['warn', 'error', 'fatal'] });
  app.enableShutdownHooks();
  await app.listen(Number(process.env['PORT'] || 3000), '127.0.0.1');
  console.log(`Open ${await app.getUrl()} in two browsers.`);
}

bootstrap().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
