import type { LockEvents } from '../events/diagnostics.js';
import type { Clock } from '../clock/clock.js';
import type { KeyQueue } from './key-queue.js';
import type { Link } from './link.js';
import type { EngineOptions } from './lock-engine.js';
import type { PassingLimits } from './options.js';
import type { Releaser } from './releaser.js';
import type { Renewer } from './renewer.js';
import type { Turns } from './turns.js';

/** What the parts of one engine share. Each engine has one such object, which identifies its locks. */
export interface Parts {
  /** The id by which stores know this engine. */
  readonly instanceId: string;
  readonly clock: Clock;
  readonly link: Link;
  readonly renewer: Renewer;
  readonly releaser: Releaser;
  readonly turns: Turns;
  readonly events: LockEvents;
  readonly passing: PassingLimits;
  /** By how much the store keeps a lock longer than its holder relies on it, in milliseconds. */
  readonly lockDelayMs: number;
  /** Returns an owner that no other attempt has. */
  nextOwner(): string;
  /** Logs one line. Never throws. */
  warn(this: void, message: string): void;
  /** See {@link EngineOptions.checkLease}. */
  readonly checkLease: EngineOptions['checkLease'];
  /** Called when a key is no longer in use. */
  forget(queue: KeyQueue): void;
  /** Called when a wait or a hold has ended. A shutdown waits for that. */
  onEnded(this: void): void;
}
