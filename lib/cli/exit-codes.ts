/**
 * The exit codes of the command line. Node and `npx` end with 1 if they fail themselves, so 1 never means that a lock
 * is free.
 */
export const EXIT = {
  /** Found, listed or released, or ended by Ctrl-C in `watch`. */
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

/** What a {@link CliError} may have besides its message. */
interface CliErrorOptions extends ErrorOptions {
  /**
   * What to do about it. It is printed after the message, as it is: passwords are only looked for in the message. So
   * it must not contain text from the user.
   */
  readonly advice?: string | undefined;
}

/** An error with a message for the user, and its exit code. */
export class CliError extends Error {
  readonly advice: string | undefined;

  constructor(
    readonly exitCode: ExitCode,
    message: string,
    { advice, ...options }: CliErrorOptions = {},
  ) {
    super(message, options);
    this.advice = advice;
  }
}

/** Returns the error for wrong arguments. */
export function usageError(message: string, advice?: string): CliError {
  return new CliError(EXIT.usage, message, { advice });
}

/** The codes of lock errors that wrong arguments cause: a resource that cannot form a key, an invalid glob. */
const USAGE_CODES: readonly unknown[] = ['LOCK_KEY', 'LOCK_CONFIG'];

/** Returns the exit code of anything that was thrown. */
export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof CliError) return error.exitCode;
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (USAGE_CODES.includes(code)) return EXIT.usage;
  return code === 'LOCK_UNAVAILABLE' ? EXIT.unavailable : EXIT.internal;
}
