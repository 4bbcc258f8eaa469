import { afterAll, afterEach, beforeAll } from '@jest/globals';

/** Servers that several tests share. */
interface Shared {
  start(): Promise<unknown>;
  clear(): Promise<void>;
  close(): Promise<void>;
}

/** Starts servers before the tests around this call, clears them after each test, and closes them after the last. */
export function forTests<T extends Shared>(servers: T): T {
  beforeAll(() => servers.start());
  afterEach(() => servers.clear());
  afterAll(() => servers.close());
  return servers;
}
