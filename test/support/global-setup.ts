import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startRedis, type RedisServer } from './redis/index.ts';

declare global {
  var testRedis: RedisServer | undefined;
}

export default async function globalSetup(): Promise<void> {
  const server = await startRedis();
  globalThis.testRedis = server;
  process.env.TEST_REDIS_URL = server.url;
  process.env.TEST_FOLDER = mkdtempSync(join(tmpdir(), 'lock-tests-'));
  console.log(`\nRedis for the tests: ${server.description}, port ${server.port}`);
}
