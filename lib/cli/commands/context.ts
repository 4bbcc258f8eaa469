import type { Clock } from '../../core/time/clock.js';
import type { LockAdmin } from '../lock-admin.js';
import type { Terminal } from '../terminal.js';

/** The options that make keys of resources. They must be those of the application. */
export interface KeySettings {
  readonly prefix: string;
  readonly hashTag: 'family' | 'resource';
}

/** What a command works with. */
export interface CommandContext {
  readonly admin: Pick<LockAdmin, 'keyOf' | 'list' | 'inspect' | 'release'>;
  readonly terminal: Terminal;
  readonly clock: Clock;
  readonly keys: KeySettings;
  /** Where Redis is, without passwords. */
  readonly shown: string;
  readonly json: boolean;
  /** Returns the message of an error, as it may be shown. */
  messageOf(this: void, error: unknown): string;
}
