import type { Clock } from '../../core/time/clock.js';
import type { LockAdmin } from '../lock-admin.js';
import type { Terminal } from '../terminal.js';

/** What a command works with. */
export interface CommandContext {
  readonly admin: Pick<LockAdmin, 'list' | 'inspect' | 'release'>;
  readonly terminal: Terminal;
  readonly clock: Clock;
  /** The prefix of the keys. */
  readonly prefix: string;
  /** Where Redis is, without passwords. */
  readonly shown: string;
  readonly json: boolean;
  /** Returns the message of an error, as it may be shown. */
  messageOf(this: void, error: unknown): string;
}
