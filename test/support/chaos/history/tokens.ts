import type { LockMode } from '../../../../lib/contract/lock-mode.js';
import type { Event } from './events.js';
import { compatible, type Hold } from './holds.js';

/**
 * Tokens from the server's clock (`clock`), or counted by the server (`counter`), which loses its count with its data.
 */
export type TokenKind = 'clock' | 'counter';

/** A grant whose token is not above an earlier grant's, or that has another token after it was detached. */
export interface FallenToken {
  readonly earlier: string;
  readonly later: string;
  readonly excused: boolean;
}

type Tokened = Hold & { readonly token: number };

/**
 * Compares grants in the order of their replies. It may differ from the order of the grants, if two are granted at
 * nearly the same time. A grant that was no longer trusted when its reply arrived does not count.
 */
export function fallenTokensOf(holds: readonly Hold[], events: readonly Event[], tokens: TokenKind): FallenToken[] {
  const trusted = holds.filter(
    (hold): hold is Tokened => hold.token !== undefined && hold.trustedUntil > hold.enteredAt,
  );
  // The highest earlier grant of each mode.
  const highest = new Map<LockMode, Tokened>();
  const changed = holds.filter(({ changedTo }) => changedTo !== undefined);
  const fallen = trusted.flatMap((later) => {
    const earlier = highestOf([...highest.values()].filter((one) => comesAfter(later, one)));
    if (later.token > (highest.get(later.mode)?.token ?? -Infinity)) highest.set(later.mode, later);
    if (earlier === undefined || later.token > earlier.token) return [];
    const excused =
      excuses(events, earlier.enteredAt, later, tokens) ||
      wasDeleted(events, grantedAt(later, trusted), earlier.enteredAt);
    return [{ earlier: earlier.op, later: later.op, excused }];
  });
  return [...changed.map(({ op }) => ({ earlier: op, later: op, excused: false })), ...fallen];
}

/** Returns when the first caller of the process entered with this token. The callers that share a lock have one. */
function grantedAt({ process, token, mode, enteredAt }: Tokened, trusted: readonly Tokened[]): number {
  if (mode === 'exclusive') return enteredAt;
  return trusted.find((one) => one.process === process && one.token === token)?.enteredAt ?? enteredAt;
}

/** Returns whether the lock was deleted between two moments. Its instance shares it until it notices. */
function wasDeleted(events: readonly Event[], from: number, to: number): boolean {
  return events.some((event) => event.kind === 'lockDeleted' && event.to >= from && event.at <= to);
}

/** Returns whether the grants are ordered. Compatible holders are not: several of an instance have one token. */
function comesAfter(later: Hold, earlier: Hold): boolean {
  return !compatible(earlier.mode, later.mode);
}

function highestOf(holds: readonly Tokened[]): Tokened | undefined {
  let found: Tokened | undefined;
  for (const hold of holds) if (found === undefined || hold.token > found.token) found = hold;
  return found;
}

/** Returns whether tokens had to fall: the data was lost, and the clock had been set back before. */
function excuses(events: readonly Event[], from: number, { enteredAt: to }: Hold, tokens: TokenKind): boolean {
  const lost = events.some((event) => event.kind === 'dataLost' && event.to >= from && event.at <= to);
  if (!lost) return false;
  return tokens === 'counter' || wentBack(events.filter((event) => event.kind === 'clock' && event.at <= to));
}

/** A smaller difference between the server's clock and the machine's is only a late reading. */
const READING_MS = 1_000;

function wentBack(readings: readonly Event[]): boolean {
  const ahead = readings.map((reading) => (reading.kind === 'clock' ? reading.server - reading.at : 0));
  return ahead.some((one, i) => ahead.slice(0, i).some((earlier) => one < earlier - READING_MS));
}
