import type { Ask } from './ask.js';
import type { Timer } from './clock.js';

/** What a contender is doing; each state carries only its own data. */
export type ContenderState =
  | { readonly kind: 'idle' }
  /** The last ask was given up and is not answered yet: the next one has to wait for that. */
  | { readonly kind: 'blocked' }
  | { readonly kind: 'asking'; readonly ask: Ask; readonly timer: Timer }
  /** Refused, in the store's queue or not: asks again when the timer fires. */
  | { readonly kind: 'waiting'; readonly ask: Ask; readonly timer: Timer }
  /** Given up without an answer: asks anew when the timer fires. */
  | { readonly kind: 'recovering'; readonly timer: Timer };
