import { randomBytes } from 'node:crypto';

/** The one server of this run; started by global-setup. */
export function testRedisUrl(): string {
  const url = process.env.TEST_REDIS_URL;
  if (!url) throw new Error('TEST_REDIS_URL is not set: run tests by `npm test`');
  return url;
}

/** Keys of one test, on a server that may be shared with others, or be the user's own: never flush it. */
export function uniquePrefix(): string {
  return `test_${randomBytes(6).toString('hex')}_`;
}
