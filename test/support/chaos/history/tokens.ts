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
 * nearly the same time. A grant that was no longer trusted when its reply arrived does not count. Compatible holders
 * are not ordered: several of an instance have one token.
 */
export function fallenTokensOf(
  holds: readonly Hold[],
  events: readonly Event[],
  tokens: TokenKind,
): readonly FallenToken[] {
  const changed = holds.filter(({ resumed, token }) => resumed !== undefined && resumed.token !== token);
  const trusted = holds.filter(
    (hold): hold is Tokened => hold.token !== undefined && hold.trustedUntil > hold.enteredAt,
  );
  const happened = (kind: 'dataLost' | 'lockDeleted', from: number, to: number): boolean =>
    events.some((event) => event.kind === kind && event.to >= from && event.at <= to);
  // The highest earlier grant of each mode.
  const highest = new Map<LockMode, Tokened>();
  const fallen = trusted.flatMap((later) => {
    const { mode, token, enteredAt } = later;
    const before = [...highest.values()].filter((one) => !compatible(one.mode, mode));
    const [earlier] = before.toSorted((one, other) => other.token - one.token);
    if (token > (highest.get(mode)?.token ?? -Infinity)) highest.set(mode, later);
    if (earlier === undefined || token > earlier.token) return [];
    // The data was lost, and tokens are counted, or the clock had been set back before.
    const isForgotten = happened('dataLost', earlier.enteredAt, enteredAt);
    const excused =
      (isForgotten && (tokens === 'counter' || wentBack(events, enteredAt))) ||
      // An instance shares a deleted lock until it notices.
      happened('lockDeleted', grantedAt(later, trusted), earlier.enteredAt);
    return [{ earlier: earlier.op, later: later.op, excused }];
  });
  return [...changed.map(({ op }) => ({ earlier: op, later: op, excused: false })), ...fallen];
}

/** Returns when the first caller of the process entered with this token. The callers that share a lock have one. */
function grantedAt({ invoke: { process }, token, mode, enteredAt }: Tokened, trusted: readonly Tokened[]): number {
  if (mode === 'exclusive') return enteredAt;
  return trusted.find((one) => one.invoke.process === process && one.token === token)?.enteredAt ?? enteredAt;
}

/** A smaller difference between the server's clock and the machine's is only a late reading. */
export const READING_MS = 1_000;

function wentBack(events: readonly Event[], to: number): boolean {
  const readings = events.filter((event) => event.kind === 'clock').filter(({ at }) => at <= to);
  const ahead = readings.map(({ server, at }) => server - at);
  return ahead.some((one, i) => ahead.slice(0, i).some((earlier) => one < earlier - READING_MS));
}
