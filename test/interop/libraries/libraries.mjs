// The libraries that users move from, each used as its users do. Each entry returns a function that tries to lock a key
// once. It returns null if the lock is held, otherwise the lock with its `release()`, which returns false or throws an
// error if the library reports that the lock was no longer its own.
import 'reflect-metadata';
import { createRequire } from 'node:module';
import * as common from '@nestjs/common';
import * as core from '@nestjs/core';

// The modules of Nest are made for CommonJS.
const require = createRequire(import.meta.url);

/** Waits for no other holder. */
const ONCE = { retryCount: 0 };

/** Wraps an acquire that throws an error if the lock is held. */
const takeBy = (acquire, isBusy, release) => async (key) => {
  try {
    const lock = await acquire(key);
    return { release: () => release(lock) };
  } catch (error) {
    if (isBusy(error)) return null;
    throw error;
  }
};

/** Wraps a method that a decorator locks, which gets the key and the work. */
const takeUnder = (locked, isBusy) => (key) =>
  new Promise((resolve, reject) => {
    const done = locked(
      key,
      () =>
        new Promise((end) => {
          const release = () => {
            end();
            return done;
          };
          resolve({ release });
        }),
    );
    done.catch((error) => (isBusy(error) ? resolve(null) : reject(error)));
  });

const named = (name) => (error) => error.name === name;

/** Applies a method decorator, as TypeScript does. */
function decorate({ prototype }, method, decorator) {
  const decorated = decorator(prototype, method, Object.getOwnPropertyDescriptor(prototype, method));
  Object.defineProperty(prototype, method, decorated);
}

const nest10 = { ...common, ...core };

/** Starts an application with this service. */
async function start(service, imports, nest = nest10) {
  // oxlint-disable-next-line typescript/no-extraneous-class -- its decorator is applied below
  class AppModule {}
  nest.Injectable()(service);
  nest.Module({ imports, providers: [service] })(AppModule);
  const app = await nest.NestFactory.createApplicationContext(AppModule, { logger: false });
  return app.get(service);
}

const redlockBy = (redlock, leaseMs) =>
  takeBy(
    (keys) => redlock.acquire(keys.split(','), leaseMs),
    named('ExecutionError'),
    (lock) => lock.release(),
  );

export const libraries = {
  async redlock({ clients, leaseMs }) {
    const { default: Redlock } = await import('redlock');
    return redlockBy(new Redlock(clients, ONCE), leaseMs);
  },

  async 'redlock 4'({ clients, leaseMs }) {
    const { default: Redlock } = await import('redlock-4');
    const redlock = new Redlock(clients, ONCE);
    return takeBy(
      (keys) => redlock.lock(keys.split(','), leaseMs),
      named('LockError'),
      (lock) => lock.unlock(),
    );
  },

  async '@sesamecare-oss/redlock'({ clients, leaseMs }) {
    const { Redlock } = await import('@sesamecare-oss/redlock');
    const { db } = clients[0].options;
    return redlockBy(new Redlock(clients, { ...ONCE, db }), leaseMs);
  },

  async 'redlock-universal'({ clients, leaseMs }) {
    const { createLock, createRedlock, IoredisAdapter } = await import('redlock-universal');
    const adapters = clients.map((client) => new IoredisAdapter(client));
    const options = { ttl: leaseMs, retryAttempts: 0, retryDelay: 1 };
    const [adapter] = adapters;
    const lockOf = (key) =>
      adapters.length > 1 ? createRedlock({ ...options, adapters, key }) : createLock({ ...options, adapter, key });
    return takeBy(
      async (key) => {
        const lock = lockOf(key);
        return { lock, handle: await lock.acquire() };
      },
      named('LockAcquisitionError'),
      ({ lock, handle }) => lock.release(handle),
    );
  },

  async 'redis-semaphore'({ clients, leaseMs }) {
    const { Mutex, RedlockMutex } = await import('redis-semaphore');
    const options = { lockTimeout: leaseMs, acquireAttemptsLimit: 1 };
    return async (key) => {
      const mutex = clients.length > 1 ? new RedlockMutex(clients, key, options) : new Mutex(clients[0], key, options);
      return (await mutex.tryAcquire()) ? mutex : null;
    };
  },

  /** Two at a time. */
  async 'a semaphore of redis-semaphore'({ clients, leaseMs }) {
    const { Semaphore } = await import('redis-semaphore');
    return async (key) => {
      const options = { lockTimeout: leaseMs, acquireAttemptsLimit: 1 };
      const semaphore = new Semaphore(clients[0], key, 2, options);
      return (await semaphore.tryAcquire()) ? semaphore : null;
    };
  },

  async murlock({ urls, leaseMs }) {
    const { MurLock, MurLockModule } = require('murlock');
    class AccountService {
      pay(id, work) {
        return work(id);
      }
    }
    decorate(AccountService, 'pay', MurLock(leaseMs, 'id'));
    const options = { redisOptions: { url: urls[0] }, wait: 1, maxAttempts: 1, logLevel: 'error' };
    const accounts = await start(AccountService, [MurLockModule.forRoot(options)]);
    return takeUnder(
      (id, work) => accounts.pay(id, work),
      (error) => /after 1 attempts/.test(error.message),
    );
  },

  async '@anchan828/nest-redlock'({ clients, leaseMs }) {
    const { Redlock, RedlockModule } = require('@anchan828/nest-redlock');
    class AccountService {
      pay(id, work) {
        return work(id);
      }
    }
    decorate(
      AccountService,
      'pay',
      Redlock((_service, id) => id, leaseMs),
    );
    const accounts = await start(AccountService, [RedlockModule.register({ clients, settings: ONCE })]);
    return takeUnder((id, work) => accounts.pay(id, work), named('ExecutionError'));
  },

  async 'nestjs-simple-redis-lock'({ urls, leaseMs }) {
    const { RedisLock, RedisLockModule, RedisLockService } = require('nestjs-simple-redis-lock');
    // It is made for Nest 9, and brings its own.
    const requireThere = createRequire(require.resolve('nestjs-simple-redis-lock'));
    const nest9 = { ...requireThere('@nestjs/common'), ...requireThere('@nestjs/core') };
    const { RedisModule } = requireThere('@liaoliaots/nestjs-redis');
    class AccountService {
      constructor(locks) {
        this.locks = locks;
      }

      pay(id, work) {
        return work(id);
      }
    }
    nest9.Inject(RedisLockService)(AccountService, undefined, 0);
    decorate(
      AccountService,
      'pay',
      RedisLock((_service, id) => id, leaseMs, 1, 0),
    );
    const { hostname: host, port } = new URL(urls[0]);
    const redis = RedisModule.forRoot({ readyLog: false, config: { host, port: Number(port) } });
    const accounts = await start(AccountService, [redis, RedisLockModule.register({})], nest9);
    const take = takeUnder(
      (id, work) => accounts.pay(id, work),
      (error) => /timed out/.test(error.message),
    );
    return Object.assign(take, { setTtl: (id, ttlMs) => accounts.locks.setTTL(id, ttlMs) });
  },
};
