import type { Timer } from './clock.js';
import type { Grant } from './grant.js';
import type { Tenure } from './tenure.js';

/** What the gate is doing; each state carries only its own data. */
export type GateState =
  | { readonly kind: 'empty' }
  | { readonly kind: 'contending' }
  | { readonly kind: 'holding'; readonly grant: Grant; readonly tenure: Tenure }
  /** The hold has ended before its `minHoldMs`. */
  | { readonly kind: 'resting'; readonly tenure: Tenure; readonly until: number; readonly timer: Timer };

export const EMPTY: GateState = { kind: 'empty' };
export const CONTENDING: GateState = { kind: 'contending' };
