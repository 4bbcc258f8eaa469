import type { LockMode } from '../../../lib/core/store/lock-mode.js';

/**
 * What happened in a run. Every `at` is a moment of the machine's monotonic clock in milliseconds, which all processes of it
 * read alike; `server` is a moment of a server's own clock.
 */
export type Event = OpEvent | HarnessEvent;

/** What a process writes of one of its operations; `op` names it, and begins with the process' name. */
export type OpEvent =
  /** It asks for the lock. */
  | { readonly kind: 'invoke'; readonly op: string; readonly process: string; readonly at: number }
  /** It has the lock, and may believe in it for that long; null: for ever. `mode`: with whom it shares it; left out: with nobody. */
  | {
      readonly kind: 'entered';
      readonly op: string;
      readonly at: number;
      readonly mode?: LockMode;
      readonly token: number | null;
      readonly expiresInMs: number | null;
    }
  /** A renewal was answered, or the local deadline was looked at again. */
  | { readonly kind: 'extended'; readonly op: string; readonly at: number; readonly expiresInMs: number | null }
  /** Its signal has aborted. */
  | { readonly kind: 'lost'; readonly op: string; readonly at: number }
  /** It gives the lock back now. */
  | { readonly kind: 'left'; readonly op: string; readonly at: number }
  /** It wrote what it wanted to; `server`: when, in ms of the resource's clock; whether the fence let its write through. */
  | {
      readonly kind: 'ok';
      readonly op: string;
      readonly at: number;
      readonly server: number;
      readonly fencedWrite: boolean;
    }
  /** It has read what the lock protects, twice, with a pause in between; the second time was over at `at`. */
  | { readonly kind: 'read'; readonly op: string; readonly at: number; readonly first: string; readonly second: string }
  /** It wrote nothing, and why. */
  | { readonly kind: 'fail'; readonly op: string; readonly at: number; readonly reason: FailReason }
  /** It may have written. */
  | { readonly kind: 'unknown'; readonly op: string; readonly at: number; readonly reason: string };

/** `busy`, `unavailable`, `left`: it got no lock. `lost`: it noticed in time that it had lost it. */
export type FailReason = 'busy' | 'unavailable' | 'left' | 'lost';

/** What the harness writes. */
export type HarnessEvent =
  /** A process was stopped, blocked or dead from then to then; null: it never came back. */
  | {
      readonly kind: 'absent';
      readonly process: string;
      readonly at: number;
      readonly from: number;
      readonly to: number | null;
    }
  /** A server's clock was read. */
  | { readonly kind: 'clock'; readonly at: number; readonly server: number }
  /** A server lost its data, at some moment between these. */
  | { readonly kind: 'dataLost'; readonly at: number; readonly to: number }
  /** Trouble begins, and ends: from here on things have to get well by themselves. */
  | { readonly kind: 'injected' | 'healed'; readonly fault: string; readonly at: number };

/** One write at the resource, in the resource's own order: who wrote, and whose value it had read before. */
export interface Write {
  readonly op: string;
  readonly basedOn: string;
}

/** All that is known of a run. */
export interface History {
  /** When it was broken off; undefined if everybody came to an end. */
  readonly until?: number;
  readonly events: readonly Event[];
  /** The register that anybody may write. */
  readonly register: readonly Write[];
  /** The register behind a fence. */
  readonly fenced: readonly Write[];
  /** The elements of the set at the end. */
  readonly set: readonly string[];
  /** Keys that were left on the lock's servers at the end: locks and queues. */
  readonly leftovers: readonly string[];
}
