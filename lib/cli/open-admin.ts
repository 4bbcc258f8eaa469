import type { Clock } from '../core/time/clock.js';
import { CliError, EXIT } from './exit-codes.js';
import type { AdminSettings, LockAdmin } from './lock-admin.js';

/**
 * Loads ioredis and connects. Help and wrong arguments do not load it.
 *
 * @throws CliError if ioredis is missing, or if Redis cannot be used.
 */
export async function openAdmin(settings: AdminSettings, clock: Clock): Promise<LockAdmin> {
  const { LockAdmin: Admin } = await import('./lock-admin.js').catch((error: unknown) => {
    throw missingIoredis(error) ?? error;
  });
  return Admin.open(settings, clock);
}

/** The messages of Node, and of Yarn's Plug'n'Play. */
const MISSING = /^(?:Cannot find (?:package|module) 'ioredis'|.* tried to access ioredis\b)/;

/** Returns the error for a missing ioredis, which is a peer dependency. Undefined for other errors. */
export function missingIoredis(error: unknown): CliError | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  const isMissing = code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND';
  if (!isMissing || !(error instanceof Error) || !MISSING.test(error.message)) return undefined;
  const message = 'The package ioredis is missing. Install it together with nestjs-redis-lock: npm install ioredis';
  return new CliError(EXIT.usage, message, { cause: error });
}
