// The main of a forked process: an application with locks. It reports what it has logged when it has locked twice, and
// ends with its parent. Its name is that of the package of the file that imports this one.
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { LockService, RedisLockModule, type RedisLockModuleOptions } from 'nestjs-redis-lock';

const options = JSON.parse(process.argv[2]) as RedisLockModuleOptions;
const warnings: string[] = [];

@Module({ imports: [RedisLockModule.forRoot(options)] })
class AppModule {}

process.on('disconnect', () => process.exit());
const logger = {
  log: () => undefined,
  warn: (line: string) => warnings.push(line),
  error: (line: string) => warnings.push(line),
};
const app = await NestFactory.createApplicationContext(AppModule, { logger });
// The reply to the second request comes after those to the requests that the connection began with.
const keys = [1, 2].map((id) => app.get(LockService).using(`goods:${id}`, ({ key }) => key));
await keys[0];
await app.get(LockService).using('goods:3', () => undefined);
process.send?.({ warnings, key: await keys[0] });
