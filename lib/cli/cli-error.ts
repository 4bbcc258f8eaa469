import { LockError, LockUnavailableError } from '../common/errors.js';

/**
 * The exit codes of the command line. Node and `npx` end with 1 if they fail themselves, so 1 never means that a lock
 * is free.
 */
export const EXIT = {
  /** Found, listed or released. */
  ok: 0,
  /** A defect of this program, or output that cannot be written. */
  internal: 1,
  /** The arguments are wrong, a confirmation is missing, or ioredis is not installed. */
  usage: 2,
  /** Redis cannot be reached or refuses the request. */
  unavailable: 3,
  /** The lock is free, or was not released. */
  notFound: 4,
} as const;

/** One of {@link EXIT}. */
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** An error with a message for the user, and its exit code. */
export class CliError extends Error {
  constructor(
    readonly exitCode: ExitCode,
    message: string,
  ) {
    super(message);
  }
}

/** Returns the exit code of anything that was thrown. */
export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof CliError) return error.exitCode;
  if (error instanceof LockUnavailableError) return EXIT.unavailable;
  // A resource that cannot form a key, or an invalid glob.
  return error instanceof LockError ? EXIT.usage : EXIT.internal;
}
