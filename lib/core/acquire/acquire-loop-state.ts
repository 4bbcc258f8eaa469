import type { Attempt } from './attempt.js';
import type { Timer } from '../time/clock.js';

/** What a contender is doing; each state carries only its own data. */
export type AcquireLoopState =
  | { readonly kind: 'idle' }
  /** The last ask was given up and is not answered yet: the next one has to wait for that. */
  | { readonly kind: 'blocked' }
  | { readonly kind: 'requesting'; readonly ask: Attempt; readonly timer: Timer }
  /** Refused, in the store's queue or not: asks again when the timer fires. */
  | { readonly kind: 'waiting'; readonly ask: Attempt; readonly timer: Timer }
  /** Given up without an answer: asks anew when the timer fires. */
  | { readonly kind: 'recovering'; readonly timer: Timer };
