import type { LockMode } from '../../../lib/core/store/lock-mode.js';
import { randomFrom } from '../random.js';
import type { Network } from './link.js';
import type { ClockSettings } from './machine.js';
import { LONGEST_LAG_MS } from './server.js';

/** What one caller does, one after another. */
export type Step = AcquireStep | ForceStep;

export interface AcquireStep {
  readonly kind: 'acquire';
  /** The pause before the call, in milliseconds. */
  readonly pauseMs: number;
  /** The numbers of the keys. Several: a multi-lock. */
  readonly keys: readonly number[];
  readonly mode: LockMode;
  readonly waitMs: number;
  readonly ttlMs: number;
  readonly workMs: number;
  readonly minHoldMs: number;
  readonly maxHoldMs: number;
  readonly unavailableAfterMs: number;
  readonly maxWaiting?: number;
  /** When the caller aborts its call, if it has no lock by then. */
  readonly abortAfterMs?: number;
  /** The lease that the caller asks for in the middle of its work. */
  readonly extendTo?: number;
  /** Whether the work acquires the same lock once more. */
  readonly nests?: boolean;
}

/** Ends the holds of a key, of any owner. */
export interface ForceStep {
  readonly kind: 'force';
  readonly pauseMs: number;
  readonly keys: readonly number[];
}

export interface CallerPlan {
  readonly process: number;
  readonly steps: readonly Step[];
}

/** What goes wrong, and when on the timeline. */
export type Fault =
  | { readonly kind: 'pause'; readonly process: number; readonly at: number; readonly forMs: number }
  | { readonly kind: 'crash'; readonly process: number; readonly at: number; readonly forMs: number }
  | { readonly kind: 'shutdown'; readonly process: number; readonly at: number; readonly forMs: number }
  | { readonly kind: 'wall clock'; readonly process: number; readonly at: number; readonly forMs: number }
  | { readonly kind: 'forged'; readonly process: number; readonly at: number; readonly forMs: number }
  | {
      readonly kind: LinkFault;
      readonly process: number;
      readonly server: number;
      readonly at: number;
      readonly forMs: number;
    }
  | {
      readonly kind: 'server pause' | 'restart' | 'restart without data';
      readonly server: number;
      readonly at: number;
      readonly forMs: number;
    }
  | {
      readonly kind: 'failover';
      readonly server: number;
      readonly at: number;
      readonly forMs: number;
      readonly lagMs: number;
    }
  | { readonly kind: 'flush'; readonly server: number; readonly at: number; readonly forMs: number }
  /** `forMs`: by how much the clock is set, negative for backwards. */
  | { readonly kind: 'server clock'; readonly server: number; readonly at: number; readonly forMs: number };

export type LinkFault = 'reset' | 'stall' | 'no subscription' | 'half-open' | 'lost messages';

/** One run. Everything else follows from its seed. */
export interface Plan {
  /** The seed of delays and jitter. */
  readonly seed: number;
  readonly requestTimeoutMs: number;
  readonly lockDelayMs: number;
  readonly strict: boolean;
  /** How many requests of a process may be without a reply. Default: 1,000. */
  readonly mostInFlight?: number;
  readonly network: Network;
  readonly servers: readonly ClockSettings[];
  readonly processes: readonly ClockSettings[];
  readonly callers: readonly CallerPlan[];
  readonly faults: readonly Fault[];
}

/** The keys of a run: two with one hash tag, and others. */
export const KEYS: readonly string[] = ['{lock_a}:1', '{lock_a}:2', '{lock_b}:1', '{lock_c}:1'];

/** Two clocks differ by twice of it at most. See `ServerTime`. */
const DRIFT = 0.000_45;
const TTLS = [300, 1_000, 3_000, 10_000];
const PROCESS_FAULTS = ['pause', 'crash', 'shutdown', 'wall clock', 'forged'] as const;
const LINK_FAULTS = ['reset', 'stall', 'no subscription', 'half-open', 'lost messages'] as const;
const SERVER_FAULTS = [
  'server pause', 'restart', 'restart without data', 'failover', 'flush', 'server clock',
] as const; // prettier-ignore

/** Returns whether nothing goes wrong, so that more is promised. */
export function isCalm({ faults, callers, mostInFlight, network }: Plan): boolean {
  if (mostInFlight !== undefined || network.reorders) return false;
  return faults.length === 0 && callers.every(({ steps }) => steps.every(({ kind }) => kind === 'acquire'));
}

/** Returns the plan of a seed. */
export function planOf(seed: number): Plan {
  const random = randomFrom(seed);
  const chance = (of: number): boolean => random() < of;
  const below = (limit: number): number => Math.floor(random() * limit);
  const oneOf = <T>(list: readonly T[]): T => list[below(list.length)];
  const listOf = <T>(length: number, make: () => T): T[] => Array.from({ length }, make);
  const clock = (): ClockSettings => ({ rate: 1 + (random() * 2 - 1) * DRIFT, offsetMs: below(1e6) });

  // A few runs are much larger.
  const most = chance(0.08) ? 7 : 4;
  const servers = listOf(chance(0.2) ? 2 : 1, clock);
  const processes = listOf(1 + below(most), clock);
  const modes: readonly (readonly LockMode[])[] = KEYS.map(() =>
    oneOf<readonly LockMode[]>([
      ['exclusive'],
      ['exclusive'],
      ['exclusive', 'shared'],
      ['shared', 'shared', 'exclusive'],
      [2],
      [3, 'exclusive'],
      [2, 'shared', 'exclusive'],
      [2, 3],
    ]),
  );
  const keyCount = 1 + below(KEYS.length);
  const ttls = chance(0.5) ? TTLS : [oneOf(TTLS)];
  const hasForce = chance(0.2);

  const acquire = (): AcquireStep => {
    const first = below(keyCount);
    const all = chance(0.15) ? KEYS.map((_, nth) => nth).filter((nth) => nth === first || chance(0.5)) : [first];
    const mode = oneOf(modes[first]);
    const ttlMs = oneOf(ttls);
    const waitMs = oneOf([0, 20, 500, 3_000, Infinity, Infinity]);
    return {
      kind: 'acquire',
      pauseMs: chance(0.4) ? 0 : below(1_500),
      keys: all,
      mode,
      waitMs,
      ttlMs,
      workMs: oneOf([0, 5, 60, 400, 2_500]),
      minHoldMs: chance(0.1) ? below(500) : 0,
      maxHoldMs: chance(0.1) ? 200 + below(2_000) : Infinity,
      unavailableAfterMs: oneOf([500, 500, Infinity]),
      ...(chance(0.05) ? { maxWaiting: below(3) } : {}),
      ...(chance(0.2) ? { abortAfterMs: chance(0.5) ? below(100) : below(1_500) } : {}),
      ...(chance(0.1) ? { extendTo: oneOf(TTLS) } : {}),
      ...(chance(0.1) ? { nests: true } : {}),
    };
  };
  const step = (): Step =>
    hasForce && chance(0.15) ? { kind: 'force', pauseMs: below(2_000), keys: [below(keyCount)] } : acquire();
  const callers = processes.flatMap((_, process) =>
    listOf(1 + below(most), () => ({ process, steps: listOf(1 + below(most), step) })),
  );

  const fault = (): Fault => {
    const at = below(8_000);
    const forMs = oneOf([0, 50, 300, 1_300, 4_000]) + below(200);
    const process = below(processes.length);
    const server = below(servers.length);
    const sort = random();
    if (sort < 0.3) {
      const kind = oneOf(PROCESS_FAULTS);
      return { kind, process, at, forMs: kind === 'wall clock' ? forMs - 1_000 : forMs };
    }
    if (sort < 0.75) return { kind: oneOf(LINK_FAULTS), process, server, at, forMs };
    const kind = oneOf(SERVER_FAULTS);
    if (kind === 'failover') return { kind, server, at, forMs, lagMs: below(LONGEST_LAG_MS) };
    return { kind, server, at, forMs: kind === 'server clock' ? forMs * oneOf([-1, 1]) : forMs };
  };
  return {
    seed,
    requestTimeoutMs: oneOf([1_000, 1_000, 300]),
    lockDelayMs: chance(0.1) ? 400 : 0,
    strict: chance(0.3),
    ...(chance(0.05) ? { mostInFlight: 1 + below(2) } : {}),
    network: { delayMs: oneOf([1, 5, 40]), reorders: chance(0.1) },
    servers,
    processes,
    callers,
    faults: chance(0.25) ? [] : listOf(1 + below(5), fault),
  };
}
