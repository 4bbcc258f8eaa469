import type { Event } from './events.js';
import { goTogether, type Hold } from './holds.js';

/** Made of the server's clock (`clock`), or counted by the server (`counter`), which forgets its count with its data. */
export type TokenKind = 'clock' | 'counter';

/** A grant whose token should have been above another one's, and was not. */
export interface FallenToken {
  readonly earlier: string;
  readonly later: string;
  readonly excused: boolean;
}

type Tokened = Hold & { readonly token: number };

/**
 * Grants in the order in which they were heard of, which may differ from that in which they were given only where two were
 * given at nearly the same time: who believed in its grant no more when it was heard of does not count.
 */
export function fallenTokensOf(holds: readonly Hold[], events: readonly Event[], tokens: TokenKind): FallenToken[] {
  const believed = holds.filter(
    (hold): hold is Tokened => hold.token !== undefined && hold.believedUntil > hold.enteredAt,
  );
  return believed.flatMap((later, i) => {
    const earlier = highest(believed.slice(0, i).filter((one) => comesBehind(later, one)));
    if (earlier === undefined || later.token > earlier.token) return [];
    return [{ earlier: earlier.op, later: later.op, excused: excuses(events, earlier.enteredAt, later, tokens) }];
  });
}

/** Those who may hold the lock at the same time may be given it at the same time: unless one had it before the other asked. */
function comesBehind(later: Hold, earlier: Hold): boolean {
  return !goTogether(earlier.mode, later.mode) || later.invokedAt >= earlier.enteredAt;
}

function highest(holds: readonly Tokened[]): Tokened | undefined {
  let found: Tokened | undefined;
  for (const hold of holds) if (found === undefined || hold.token > found.token) found = hold;
  return found;
}

/** Whether tokens could not but fall: the data was lost, and the clock that would make up for it was set back before. */
function excuses(events: readonly Event[], from: number, { enteredAt: to }: Hold, tokens: TokenKind): boolean {
  const lost = events.some((event) => event.kind === 'dataLost' && event.to >= from && event.at <= to);
  if (!lost) return false;
  return tokens === 'counter' || wentBack(events.filter((event) => event.kind === 'clock' && event.at <= to));
}

/** A server's clock that falls behind the machine's went back; by less than this it was only read late. */
const READING_MS = 1_000;

function wentBack(readings: readonly Event[]): boolean {
  const ahead = readings.map((reading) => (reading.kind === 'clock' ? reading.server - reading.at : 0));
  return ahead.some((one, i) => ahead.slice(0, i).some((earlier) => one < earlier - READING_MS));
}
