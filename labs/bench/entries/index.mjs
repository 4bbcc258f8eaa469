// All compared entries, in the order of the tables.
import { bare } from './bare.mjs';
import { ioredfour } from './ioredfour.mjs';
import { murlock } from './murlock.mjs';
import { ours, oursStrict, oursUnawaited, oursUsing } from './ours.mjs';
import { raw } from './raw.mjs';
import { redisSemaphore } from './redis-semaphore.mjs';
import { redlockUniversal } from './redlock-universal.mjs';
import { redlock, sesamecareRedlock } from './redlock.mjs';
import { verrou } from './verrou.mjs';

/**
 * One way to lock.
 *
 * @typedef {object} Entry
 * @property {string} name
 * @property {'floor' | 'peer' | 'ours'} kind
 * @property {string} waiting how its waiters learn of a release, as configured here
 * @property {string} [defaults] the same at the library's defaults, if different
 * @property {(error: Error) => boolean} [givesUp] whether the error says that the library has stopped waiting
 * @property {string} [variantOf] the entry whose settings this one changes
 * @property {(url: string, options?: { autoPipelining?: boolean, atDefaults?: boolean }) => Promise<Opened>} open
 *
 * @typedef {object} Opened
 * @property {(key: string) => Promise<unknown>} acquire waits without a limit and returns a handle
 * @property {(handle: unknown) => Promise<unknown>} release
 * @property {(key: string) => Promise<unknown>} [cycle] acquires and releases. Default: `acquire`, then `release`
 * @property {(handle: unknown) => number} [tokenOf] the fencing token of a handle
 * @property {() => number} [gaveUp] how often the library stopped waiting, so that its caller tried again
 * @property {() => Promise<void> | void} close
 */

const peers = [redlock, sesamecareRedlock, redisSemaphore, redlockUniversal, verrou, ioredfour, murlock];

/** @type {readonly Entry[]} */
export const entries = [raw, bare, ...peers, ours];
/** One cycle after the other. */
export const sequentialEntries = [...entries, oursUsing, oursUnawaited];
/** The first cycles of a process. */
export const coldEntries = [raw, bare, redisSemaphore, ours, oursUnawaited];
/** With strict order between processes. */
export const entriesWithStrict = [...entries, oursStrict];
/**
 * Callers that wait with the settings that the libraries come with. Some of them still wait when the lock has long been
 * free, and send requests. They are measured after the others, so that these requests disturb nobody.
 */
export const defaultEntries = peers.filter(({ defaults }) => defaults !== undefined).map(atDefaults);

/** @type {readonly Entry[]} */
export const allEntries = [...sequentialEntries, oursStrict, ...defaultEntries];

/** Waits as the library does if nothing is configured. If it gives up, its caller tries again. */
function atDefaults(entry) {
  const { name, defaults: waiting, givesUp = () => false } = entry;
  return {
    ...entry,
    name: `${name}, defaults`,
    variantOf: name,
    waiting,
    async open(url, options) {
      const opened = await entry.open(url, { ...options, atDefaults: true });
      let gaveUp = 0;
      const acquire = async (key) => {
        for (;;) {
          try {
            return await opened.acquire(key);
          } catch (error) {
            if (!givesUp(error)) throw error;
            gaveUp += 1;
          }
        }
      };
      return { ...opened, acquire, gaveUp: () => gaveUp };
    },
  };
}

/** Opens an entry, with its scripts loaded and its code warm. */
export async function open(name, url, options = {}) {
  const opened = await openCold(name, url, options);
  for (let i = 0; i < 20; i++) await opened.cycle(`warm-up:${process.pid}`);
  return opened;
}

/** Opens an entry. Its first cycle loads its scripts, and may have to wait for its connection. */
export async function openCold(name, url, options = {}) {
  const opened = await allEntries.find((entry) => entry.name === name).open(url, options);
  return { cycle: async (key) => opened.release(await opened.acquire(key)), ...opened };
}
