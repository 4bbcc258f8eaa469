/**
 * What gets the log lines of locks: Nest's `Logger`, `console`, or another object with these three methods.
 *
 * @publicApi
 */
export interface LockLogger {
  /** Called with a line of information, such as where the locks are. */
  log(message: string): void;
  /** Called with a line that an operator should read, such as an outage of Redis or a lost lock. */
  warn(message: string): void;
  /** Called with a mistake, and with the stack of the error that an application's callback threw, if there is one. */
  error(message: string, stack?: string): void;
}
