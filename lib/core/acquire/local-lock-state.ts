import type { Timer } from '../time/clock.js';
import type { Grant } from '../lease/grant.js';
import type { LocalHandoff } from './local-handoff.js';

/** What the gate is doing; each state carries only its own data. */
export type LocalLockState =
  | { readonly kind: 'empty' }
  | { readonly kind: 'acquiring' }
  | { readonly kind: 'holding'; readonly grant: Grant; readonly tenure: LocalHandoff }
  /** The hold has ended before its `minHoldMs`. */
  | { readonly kind: 'resting'; readonly tenure: LocalHandoff; readonly until: number; readonly timer: Timer };

export const EMPTY: LocalLockState = { kind: 'empty' };
export const ACQUIRING: LocalLockState = { kind: 'acquiring' };
