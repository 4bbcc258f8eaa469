import { createRequire } from 'node:module';
import { LockConfigError, messageOf } from '../common/errors.js';

/** The exports of ioredis. */
export type Ioredis = typeof import('ioredis');

/** What Node says, and Yarn's Plug'n'Play. A package that ioredis itself does not find has another name. */
const MISSING = /^(?:Cannot find (?:package|module) 'ioredis'|.* tried to access ioredis\b)/;

/**
 * Loads ioredis when a client is to be made, so that an application with a node-redis client need not
 * install it.
 *
 * @param advice says what to do if it is missing.
 * @throws LockConfigError if it is not installed, or too old.
 */
export function loadIoredis(
  advice = 'Run `npm install ioredis`, or pass a node-redis client with fromNodeRedis().',
): Ioredis {
  const ioredis = requireIoredis(advice);
  // ioredis 4 exports the class itself.
  if (typeof ioredis.Redis === 'function') return ioredis;
  throw new LockConfigError('The package ioredis is too old: version 5.3 or later is needed.');
}

function requireIoredis(advice: string): Ioredis {
  try {
    // A bundler finds the package by this call. An ES module has no `require` in Node.
    if (typeof require === 'function') return require('ioredis') as Ioredis;
    return createRequire(import.meta.url)('ioredis') as Ioredis;
  } catch (cause) {
    if (!MISSING.test(messageOf(cause))) throw cause;
    throw new LockConfigError(`The package ioredis is missing. ${advice}`, { cause });
  }
}
