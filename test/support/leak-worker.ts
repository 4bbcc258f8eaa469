// Run with `--expose-gc`. Forgets handles of locks in many ways, and prints what the module found as JSON.
import { setTimeout as pause } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import { type LeakedEvent, type Lock, lockChannels, type LockOptions, runInLockScope } from 'nestjs-redis-lock';
import { createTestLocks } from 'nestjs-redis-lock/testing';

const { gc } = globalThis as unknown as { gc: (this: void) => void };
const lines: string[] = [];
const leaked: LeakedEvent[] = [];
Logger.overrideLogger({ warn: (line: string) => lines.push(line), log() {}, error() {} });
lockChannels.leaked.subscribe((event) => leaked.push(event as LeakedEvent));
const locks = createTestLocks();

const isHeld = (resource: string): boolean => locks.local().holds.some((hold) => hold.resource === resource);

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
    keeps = await isKept('scope:1');
  });
  return keeps;
}

async function bySignal(): Promise<readonly boolean[]> {
  let { signal }: { signal: AbortSignal | undefined } = await locks.acquire('signal:1');
  const before = await isKept('signal:1');
  await locks.forceRelease('signal:1');
  const { aborted } = signal;
  signal = (await locks.acquire('signal:1')).signal;
  const again = (await isKept('signal:1')) && !signal.aborted;
  signal = undefined;
  return [before, aborted, again, await isFreed('signal:1')];
}

async function byTimer(): Promise<readonly boolean[]> {
  const lock = await locks.acquire('timer:1');
  const timer = setInterval(() => lock.assertHeld(), 1_000);
  const keeps = await isKept('timer:1');
  await lock.release();
  clearInterval(timer);
  return [keeps, !isHeld('timer:1')];
}

const found: Record<string, unknown> = {};
await forget('goods:1');
found['acquire'] = await isFreed('goods:1');
await locks.tryAcquire('goods:2');
await Promise.resolve();
found['tryAcquire'] = await isFreed('goods:2');
await locks.acquire(['goods:3', 'goods:4']);
await Promise.resolve();
found['list'] = [await isFreed('goods:3'), await isFreed('goods:4')];
await locks.acquire(['goods:5', 'other:1']);
await Promise.resolve();
found['list of two families'] = [await isFreed('goods:5'), await isFreed('other:1')];
await new Cart().open();
await Promise.resolve();
found['object'] = await isFreed('cart:1');
await locks.using('goods:6', async () => {
  await forget('goods:6');
});
found['nested'] = await isFreed('goods:6');
await forget('goods:7', { mode: 'shared' });
found['shared'] = await isFreed('goods:7');
found['scope'] = [await ofScope(), await isFreed('scope:1')];
await runInLockScope(() => locks.acquire('scope:2'));
await Promise.resolve();
found['after its scope'] = await isFreed('scope:2');
await forget('short:1', { renew: false, ttlMs: 60_000 });
found['not renewed'] = await isKept('short:1');
found['signal'] = await bySignal();
found['timer'] = await byTimer();
const report = { found, lines, leaked: leaked.map(({ resource, label, place }) => [resource, label, place]) };
process.stdout.write(JSON.stringify(report), () => process.exit());
