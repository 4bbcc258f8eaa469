// All compared entries, in the order of the tables.
import { bare, barePermits, bareShared } from './bare.mjs';
import { ioredfour } from './ioredfour.mjs';
import { ours, oursPermits, oursShared, oursStrict } from './ours.mjs';
import { raw } from './raw.mjs';
import { redisSemaphore, redisSemaphores } from './redis-semaphore.mjs';
import { redlockUniversal } from './redlock-universal.mjs';
import { redlock } from './redlock.mjs';
import { verrou } from './verrou.mjs';

/**
 * One way to lock.
 *
 * @typedef {object} Entry
 * @property {string} name
 * @property {'floor' | 'peer' | 'ours'} kind
 * @property {string} waiting how its waiters learn of a release, as configured here
 * @property {string} [defaults] the same at the library's defaults, if different
 * @property {(url: string, options?: OpenOptions) => Promise<Opened>} open
 *
 * @typedef {object} OpenOptions
 * @property {boolean} [autoPipelining]
 *
 * @typedef {object} Opened
 * @property {(key: string, way?: number) => Promise<unknown>} acquire waits without a limit and returns a
 *   handle. `way` is one of the entry's ways to lock
 * @property {(handle: unknown) => Promise<unknown>} release
 * @property {(handle: unknown) => number} [tokenOf] the fencing token of a handle
 * @property {() => Promise<void> | void} close
 */

/** @type {readonly Entry[]} */
export const entries = [raw, bare, redlock, redisSemaphore, redlockUniversal, verrou, ioredfour, ours];

/** @type {readonly Entry[]} */
export const entriesWithStrict = [...entries, oursStrict];

/**
 * For readers (way 0) and writers (way 1). The peers do not distinguish them: their readers exclude one another.
 *
 * @type {readonly Entry[]}
 */
export const readWriteEntries = [raw, redisSemaphore, ours, bareShared, oursShared];

/** @type {readonly Entry[]} */
export const permitEntries = [barePermits, ...redisSemaphores, oursPermits];

/** @type {readonly Entry[]} */
export const allEntries = [...new Set([...entriesWithStrict, ...readWriteEntries, ...permitEntries])];

/** Opens an entry, with its scripts loaded and its code warm. */
export async function open(name, url, options = {}) {
  const opened = await allEntries.find((entry) => entry.name === name).open(url, options);
  for (let i = 0; i < 20; i++) await opened.release(await opened.acquire(`warm-up:${process.pid}`));
  return opened;
}
