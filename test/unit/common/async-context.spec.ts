import { AsyncLocalStorage, createHook } from 'node:async_hooks';
import { join } from 'node:path';
import { describe, expect, it, jest } from '@jest/globals';
import { modules } from '../../../tools/entry-points.cjs';

type AsyncContext = typeof import('../../../lib/common/async-context.js');

const load = (path: string): unknown => jest.requireActual(join(__dirname, '../../..', path));

/** Promises keep no process alive, and the request for random bytes is over. `--detectOpenHandles` ignores both. */
const IGNORED = new Set(['PROMISE', 'RANDOMBYTESREQUEST']);

/** Returns the types of the asynchronous resources that `work` has made and that are open after it. */
async function openAfter(work: () => void): Promise<string[]> {
  const open = new Map<number, string>();
  let isWorking = true;
  const hook = createHook({
    init: (id, type) => void (isWorking && !IGNORED.has(type) && open.set(id, type)),
    destroy: (id) => void open.delete(id),
  }).enable();
  try {
    work();
    isWorking = false;
    // Node calls `destroy` in an immediate.
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    hook.disable();
  }
  return [...open.values()];
}

describe('the package', () => {
  it.each(Object.entries(modules))('opens nothing when it is imported: %s', async (_specifier, path) => {
    // Jest compiles the files and writes its cache, for which it listens to signals.
    load(path);
    jest.resetModules();
    expect(await openAfter(() => void load(path))).toEqual([]);
  });

  it('opens nothing when a module is configured', async () => {
    jest.resetModules();
    const { RedisLockModule } = load('lib/index.ts') as typeof import('../../../lib/index.js');
    expect(await openAfter(() => void RedisLockModule.forRoot())).toEqual([]);
  });

  it('opens nothing when a manual clock schedules a timer', async () => {
    const { ManualClock } = load('lib/testing/index.ts') as typeof import('../../../lib/testing/index.js');
    const clock = new ManualClock();
    expect(await openAfter(() => void clock.schedule(1_000, () => undefined))).toEqual([]);
    expect(clock.pending).toBe(1);
  });
});

describe('runOutside()', () => {
  it('leaves the storage of a caller, for that of the place where the module was configured', () => {
    jest.resetModules();
    const { RedisLockModule } = load('lib/index.ts') as typeof import('../../../lib/index.js');
    const { runOutside } = load('lib/common/async-context.ts') as AsyncContext;
    const storage = new AsyncLocalStorage<string>();
    storage.run('configured', () => RedisLockModule.forRoot());
    expect(storage.run('call', () => runOutside(() => storage.getStore()))).toBe('configured');
    expect(storage.run('call', () => storage.getStore())).toBe('call');
  });
});
