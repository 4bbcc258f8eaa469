import { randomBytes } from 'node:crypto';

/** Returns the URL of the server of this run, which global-setup has started. */
export function testRedisUrl(): string {
  const url = process.env.TEST_REDIS_URL;
  if (!url) throw new Error('TEST_REDIS_URL is not set: run tests by `npm test`');
  return url;
}

/** Returns a key prefix for one test. The server may be shared or the user's own: never flush it. */
export function uniquePrefix(): string {
  return `test_${randomBytes(6).toString('hex')}_`;
}
