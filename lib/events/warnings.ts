/** Called with one line about something that an operator should know. */
export type Warn = (message: string) => void;

/**
 * Returns a function that never throws, because a failing logger must not stop the engine between two steps. Node
 * prints the message instead.
 */
export function safely(warn: Warn): Warn {
  return (message) => {
    try {
      warn(message);
    } catch {
      process.emitWarning(message, 'RedisLockWarning');
    }
  };
}
