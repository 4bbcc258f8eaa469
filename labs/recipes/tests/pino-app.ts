// What main.ts of the page does, and two locks.
import { NestFactory } from '@nestjs/core';
import { LockService } from 'nestjs-redis-lock';
import { Logger } from 'nestjs-pino';
import { AppModule } from '../examples/logging.js';
import { eventually } from './support.js';

const app = await NestFactory.createApplicationContext(AppModule, { bufferLogs: true, abortOnError: false });
app.useLogger(app.get(Logger));
await app.init();
const locks = app.get(LockService);
await locks.using('goods:302', () => undefined);
const lock = await locks.acquire('goods:303');
await locks.forceRelease('goods:303');
await eventually('the lock is lost', () => lock.signal.aborted);
await app.close();
