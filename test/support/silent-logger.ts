import type { LockLogger } from '../../lib/lock-runtime.js';

const ignore = (): void => undefined;

/** Logs nothing, because a test causes on purpose what is logged. */
export const silent: LockLogger = { log: ignore, warn: ignore, error: ignore };
