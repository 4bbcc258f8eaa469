// The main of a forked process: one application with the sources as its hooks load them. It runs the calls of its
// parent.
import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { LockService, RedisLockModule } from '../../lib/index.js';

const { data, options } = JSON.parse(process.argv[2]);

const warnings = [];
Logger.overrideLogger({
  log: () => undefined,
  warn: (text) => warnings.push(text),
  error: (text) => warnings.push(text),
});

const module = RedisLockModule.forRoot({ shutdownGraceMs: 0, ...options });
const app = await NestFactory.createApplicationContext(module);
const locks = app.get(LockService);
const redis = new Redis(data);
const held = new Map();

/** Counts who is inside, and reports who is not allowed beside whom. */
const ENTER = `
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
local inside = redis.call('HMGET', KEYS[1], 'exclusive', 'shared', 'permits')
return (inside[1] or 0) .. ' ' .. (inside[2] or 0) .. ' ' .. (inside[3] or 0)`;

const isAllowed = ([exclusive, shared, permits], most) => {
  const kinds = [exclusive > 0, shared > 0, permits > 0].filter(Boolean).length;
  return kinds === 1 && exclusive <= 1 && permits <= most;
};

/** Works under the lock and records what is seen. */
async function work(inside, kind, most, token) {
  const seen = String(await redis.eval(ENTER, 1, inside, kind));
  if (!isAllowed(seen.split(' ').map(Number), most)) await redis.rpush(`${inside}:faults`, `${kind} beside ${seen}`);
  if (kind === 'exclusive' && token !== undefined) await redis.rpush(`${inside}:tokens`, String(token));
  await redis.hincrby(inside, kind, -1);
  await redis.incr(`${inside}:${process.pid}`);
}

const describe = (error) => ({ code: error.code, message: error.message });

const calls = {
  /** Returns the token of a lock that is held until `release`. Rejects with code and message. */
  async acquire(resource, given) {
    const lock = await locks.acquire(resource, given);
    held.set(String(resource), lock);
    return lock.fencingToken;
  },
  async tryAcquire(resource, given) {
    const lock = await locks.tryAcquire(resource, given);
    if (lock !== null) held.set(String(resource), lock);
    return lock !== null;
  },
  release: (resource) => held.get(String(resource)).release(),
  isHeld: (resource) => !held.get(String(resource)).signal.aborted,
  forceRelease: (resource, given) => locks.forceRelease(resource, given),
  inspect: (resource) => locks.inspect(resource),
  /** Takes the lock again and again in these modes, in turns. */
  async contend(resource, modes, times, inside) {
    for (let i = 0; i < times; i += 1) {
      const { kind, most = 1, ...given } = modes[i % modes.length];
      await locks.using(resource, given, ({ fencingToken }) => work(inside, kind, most, fencingToken));
    }
  },
  warnings: () => warnings,
};

process.on('message', ({ id, name, args }) => {
  Promise.resolve()
    .then(() => calls[name](...args))
    .then(
      (value) => process.send?.({ id, value }),
      (error) => process.send?.({ id, error: describe(error) }),
    );
});
process.on('disconnect', () => process.exit());
process.send?.({ id: 0 });
