import { Logger } from '@nestjs/common';
import { DEFAULT_INSTANCE } from '../options/redis-lock.options.js';

/** Returns what logs the lines of a module instance. */
export function loggerOf(name: string = DEFAULT_INSTANCE): Logger {
  return new Logger(name === DEFAULT_INSTANCE ? 'RedisLockModule' : `RedisLockModule:${name}`);
}
