import type { KeyOptions } from '../../core/keys/resource-key.js';
import type { Clock } from '../../core/time/clock.js';
import type { LockAdmin } from '../lock-admin.js';
import type { Terminal } from '../terminal.js';

/** What a command works with. */
export interface CommandContext {
  readonly admin: Pick<LockAdmin, 'keyOf' | 'list' | 'inspect' | 'release'>;
  readonly terminal: Terminal;
  readonly clock: Clock;
  /** How keys are made of resources. It must be as in the application. */
  readonly keys: KeyOptions;
  /** Where Redis is, without passwords. */
  readonly shown: string;
  readonly json: boolean;
  /** Returns the message of an error, as it may be shown. */
  messageOf(this: void, error: unknown): string;
}
