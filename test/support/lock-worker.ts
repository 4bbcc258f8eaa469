// The main of a forked process: one module instance, told what to do by its parent, and gone with it.
import { Logger } from '@nestjs/common';
import type { Lock } from '../../lib/core/lock.js';
import { LockRuntime } from '../../lib/lock-runtime.js';
import type { LockOptions, RedisLockModuleOptions } from '../../lib/redis-lock.options.js';

Logger.overrideLogger(false);
const runtime = LockRuntime.start(JSON.parse(process.argv[2]) as RedisLockModuleOptions);
runtime.connect();
const held = new Map<string, Lock>();
const lockOf = (resource: string): Lock => held.get(resource) as Lock;

/** What the parent may call. */
const calls = {
  async acquire(resource: string, options?: LockOptions): Promise<number> {
    const lock = await runtime.service.acquire(resource, options);
    held.set(resource, lock);
    return lock.fencingToken;
  },
  release: (resource: string) => lockOf(resource).release(),
  expiresInMs: (resource: string) => lockOf(resource).expiresInMs,
  close: () => runtime.close(),
};

/** @internal */
export type WorkerCalls = typeof calls;

process.on('message', ({ id, name, args }: { id: number; name: keyof WorkerCalls; args: never[] }) => {
  const answer = async (): Promise<unknown> => (calls[name] as (...given: never[]) => unknown)(...args);
  answer().then(
    (value) => process.send?.({ id, value }),
    (error: unknown) => process.send?.({ id, error: String(error) }),
  );
});
process.on('disconnect', () => process.exit());
process.send?.({ id: 0 });
