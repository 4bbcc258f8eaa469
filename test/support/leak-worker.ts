// Run with `--expose-gc`. Forgets handles of locks in many ways, and prints what the module found as JSON.
import { setTimeout as pause } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import {
  type LeakedEvent,
  type Lock,
  lockChannels,
  type LockEvent,
  type LockOptions,
  runInLockScope,
} from 'nestjs-redis-lock';
import { createTestLocks } from 'nestjs-redis-lock/testing';

const { gc } = globalThis as unknown as { gc: (this: void) => void };
const lines: string[] = [];
const leaked: LeakedEvent[] = [];
const renewed = new Set<string>();
Logger.overrideLogger({ warn: (line: string) => lines.push(line), log() {}, error() {} });
lockChannels.leaked.subscribe((event) => leaked.push(event as LeakedEvent));
lockChannels.extended.subscribe((event) => renewed.add((event as LockEvent).resource));
// A handle is found after its first renewal: here after a second.
const locks = createTestLocks({ ttlMs: 3_000 });

const isHeld = (resource: string): boolean => locks.local().holds.some((hold) => hold.resource === resource);

/** Waits for the next renewal of a lock. */
async function nextRenewal(resource: string): Promise<void> {
  renewed.delete(resource);
  while (isHeld(resource) && !renewed.has(resource)) await pause(10);
}

/** Returns whether the lock is free after a while, in which the collector has run at least `times` times. */
async function isFreed(resource: string, times = 2_000): Promise<boolean> {
  for (let i = 0; i < times && isHeld(resource); i += 1) {
    gc();
    await pause(10);
  }
  return !isHeld(resource);
}

/** A lock that a test is sure not to be freed needs few runs of the collector. */
const isKept = async (resource: string): Promise<boolean> => !(await isFreed(resource, 30));

async function forget(resource: string, options?: LockOptions): Promise<void> {
  await locks.acquire(resource, options);
}

/** An object with a lock, which is forgotten together with it. */
class Cart {
  lock: Lock | undefined;

  async open(): Promise<void> {
    this.lock = await locks.acquire('cart:1', { label: 'request 7' });
  }
}

async function ofScope(): Promise<boolean> {
  let keeps = false;
  await runInLockScope(async () => {
    await forget('scope:1');
    await nextRenewal('scope:1');
    keeps = await isKept('scope:1');
  });
  return keeps;
}

async function bySignal(): Promise<readonly boolean[]> {
  let { signal }: { signal: AbortSignal | undefined } = await locks.acquire('signal:1');
  await nextRenewal('signal:1');
  const before = await isKept('signal:1');
  await locks.forceRelease('signal:1');
  const { aborted } = signal;
  let lock: Lock | undefined = await locks.acquire('signal:1');
  await nextRenewal('signal:1');
  ({ signal } = lock);
  lock = undefined;
  const again = (await isKept('signal:1')) && !signal.aborted;
  // A caller may have left a listener there.
  signal = undefined;
  return [before, aborted, again, await isKept('signal:1')];
}

async function byTimer(): Promise<readonly boolean[]> {
  const lock = await locks.acquire('timer:1');
  const timer = setInterval(() => lock.assertHeld(), 1_000);
  await nextRenewal('timer:1');
  const keeps = await isKept('timer:1');
  await lock.release();
  clearInterval(timer);
  return [keeps, !isHeld('timer:1')];
}

const found: Record<string, unknown> = {};
// First of all, because only ten lines a minute are logged.
await new Cart().open();
await nextRenewal('cart:1');
found['object'] = await isFreed('cart:1');
await forget('goods:1');
await locks.tryAcquire('goods:2');
await locks.acquire(['goods:3', 'goods:4']);
await locks.acquire(['goods:5', 'other:1']);
await locks.using('goods:6', async () => {
  await forget('goods:6');
});
await forget('goods:7', { mode: 'shared' });
await Promise.all(locks.local().holds.map(({ resource }) => nextRenewal(resource)));
found['acquire'] = await isFreed('goods:1');
found['tryAcquire'] = await isFreed('goods:2');
found['list'] = [await isFreed('goods:3'), await isFreed('goods:4')];
found['list of two families'] = [await isFreed('goods:5'), await isFreed('other:1')];
found['nested'] = await isFreed('goods:6');
found['shared'] = await isFreed('goods:7');
found['scope'] = [await ofScope(), await isFreed('scope:1')];
await runInLockScope(() => locks.acquire('scope:2'));
await nextRenewal('scope:2');
found['after its scope'] = await isFreed('scope:2');
await forget('short:1', { renew: false, ttlMs: 600_000 });
found['not renewed'] = await isKept('short:1');
await forget('long:1', { ttlMs: 3_600_000 });
found['not renewed yet'] = await isKept('long:1');
found['signal'] = await bySignal();
found['timer'] = await byTimer();
const report = { found, lines, leaked: leaked.map(({ resource, label, place }) => [resource, label, place]) };
process.stdout.write(JSON.stringify(report), () => process.exit());
