import { countCommand } from '../commands.mjs';
import { POLL_MS, TTL_MS } from '../settings.mjs';

// It has no defaults. These are the options of its README.
const README = { wait: 1_000, maxAttempts: 3, blocking: false };

/** Its module's service, without an application. It opens a connection of node-redis, which always pipelines. */
export const murlock = {
  name: 'murlock',
  kind: 'peer',
  waiting: `polls every ${POLL_MS} ms`,
  defaults: '1 s, then 2 s, 3 attempts',
  givesUp: (error) => /after \d+ attempts/.test(error.message),
  async open(url, { atDefaults = false } = {}) {
    const { MurLockService } = await import('murlock');
    const { AsyncStorageService } = await import('murlock/dist/als/als.service.js');
    const { AsyncStorageManager } = await import('murlock/dist/als/als-manager.js');
    const { AsyncLocalStorage } = await import('node:async_hooks');
    const waiting = atDefaults ? README : { wait: POLL_MS, maxAttempts: 1, blocking: true };
    const options = { redisOptions: { url }, logLevel: 'error', ...waiting };
    const context = new AsyncStorageService(new AsyncStorageManager(new AsyncLocalStorage()));
    const service = new MurLockService(options, context);
    await service.onModuleInit();
    countCommandsOf(service.redisClient);
    return {
      acquire: (key) =>
        new Promise((resolve, reject) => {
          const lock = {};
          lock.ended = service.runWithLock(key, TTL_MS, () => {
            resolve(lock);
            return new Promise((end) => (lock.end = end));
          });
          lock.ended.catch(reject);
        }),
      release: ({ end, ended }) => {
        end();
        return ended;
      },
      close: () => service.onApplicationShutdown(),
    };
  },
};

function countCommandsOf(client) {
  const { sendCommand } = client;
  client.sendCommand = function countingSendCommand(...args) {
    countCommand();
    return sendCommand.apply(this, args);
  };
}
