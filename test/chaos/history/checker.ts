import type { Event, History, Write } from './events.js';
import { type Hold, holdsOf, type Operation, operationsOf } from './holds.js';

/** Two who believed in the lock at the same time. */
export interface Overlap {
  readonly first: string;
  readonly second: string;
  readonly ms: number;
}

/** What a run has shown. None of it is good or bad by itself: that is for the fault's promises to say. */
export interface Findings {
  readonly acquisitions: number;
  readonly overlaps: readonly Overlap[];
  /** Grants whose token was not above those of all grants before: `later` gave the same or less than `earlier`. */
  readonly fallenTokens: readonly { readonly earlier: string; readonly later: string; readonly excused: boolean }[];
  /** Writes that overwrote one which their writer had not read. */
  readonly lostUpdates: readonly Write[];
  readonly lostBehindFence: readonly Write[];
  /** Elements that were acknowledged, and are missing in the set. */
  readonly lostElements: readonly string[];
  /** How long each waited for the lock, or for being refused, who waited for longer than `longWaitMs`. */
  readonly longWaits: readonly { readonly op: string; readonly ms: number }[];
  readonly longestWaitMs: number;
  /** Operations that never ended although their process lived on. */
  readonly hung: readonly string[];
  /** Holds that were lost before their work was done. */
  readonly lostHolds: readonly string[];
  /** Operations that could not ask for the lock. */
  readonly unavailable: readonly string[];
  readonly leftovers: readonly string[];
  /** From when trouble was over and nobody held the lock any more to the next grant, the longest; undefined without trouble. */
  readonly recoveryMs: number | undefined;
}

/** What the checker has to know beside the history. */
export interface CheckTerms {
  readonly longWaitMs: number;
  /** Tokens are made of the server's clock (`clock`), or counted by the server (`counter`), which forgets its count with its data. */
  readonly tokens: 'clock' | 'counter';
}

/** Reads a history; changes nothing. */
export function check(history: History, terms: CheckTerms): Findings {
  const operations = operationsOf(history.events);
  const holds = holdsOf(operations);
  const absences = history.events.filter((event) => event.kind === 'absent');
  const waits = operations.flatMap((one) => waitOf(one, absences, history.until));
  return {
    acquisitions: holds.length,
    overlaps: overlapsOf(holds),
    fallenTokens: fallenTokensOf(holds, history.events, terms.tokens),
    lostUpdates: lostUpdatesOf(history.register),
    lostBehindFence: lostUpdatesOf(history.fenced),
    lostElements: lostElementsOf(operations, history.set),
    longWaits: waits.filter(({ ms }) => ms > terms.longWaitMs),
    longestWaitMs: Math.max(0, ...waits.map(({ ms }) => ms)),
    hung: hungOf(operations, absences),
    lostHolds: holds.filter(({ lost }) => lost).map(({ op }) => op),
    unavailable: operations.filter(({ failed }) => failed === 'unavailable').map(({ op }) => op),
    leftovers: history.leftovers,
    recoveryMs: recoveryOf(history.events, holds),
  };
}

/** Each hold against the one before it that was believed in for longest: enough to find every hold that overlaps with any. */
function overlapsOf(holds: readonly Hold[]): readonly Overlap[] {
  const overlaps: Overlap[] = [];
  let last: Hold | undefined;
  for (const hold of holds) {
    if (last !== undefined && hold.enteredAt < last.believedUntil && hold.enteredAt < hold.believedUntil) {
      const ms = Math.min(last.believedUntil, hold.believedUntil) - hold.enteredAt;
      overlaps.push({ first: last.op, second: hold.op, ms });
    }
    if (last === undefined || hold.believedUntil > last.believedUntil) last = hold;
  }
  return overlaps;
}

/**
 * Grants in the order in which they were heard of, which may differ from that in which they were given only where two were
 * given at nearly the same time: who believed in its grant no more when it was heard of does not count.
 */
function fallenTokensOf(holds: readonly Hold[], events: readonly Event[], tokens: CheckTerms['tokens']) {
  const fallen: { earlier: string; later: string; excused: boolean }[] = [];
  let highest: (Hold & { token: number }) | undefined;
  for (const hold of holds) {
    if (hold.token === undefined || hold.believedUntil <= hold.enteredAt) continue;
    const tokened = hold as Hold & { token: number };
    if (highest !== undefined && hold.token <= highest.token) {
      const excused = excuses(events, highest.enteredAt, hold.enteredAt, tokens);
      fallen.push({ earlier: highest.op, later: hold.op, excused });
    }
    if (highest === undefined || hold.token > highest.token) highest = tokened;
  }
  return fallen;
}

/** Whether tokens could not but fall: the data was lost, and the clock that would make up for it was set back before. */
function excuses(events: readonly Event[], from: number, to: number, tokens: CheckTerms['tokens']): boolean {
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

/** Every write is based on the one before it, or overwrote what it had not read. */
function lostUpdatesOf(writes: readonly Write[]): readonly Write[] {
  return writes.filter(({ basedOn }, i) => basedOn !== (writes[i - 1]?.op ?? ''));
}

function lostElementsOf(operations: readonly Operation[], set: readonly string[]): readonly string[] {
  const present = new Set(set);
  return operations.filter(({ op, acknowledged }) => acknowledged && !present.has(op)).map(({ op }) => op);
}

type Absence = Extract<Event, { kind: 'absent' }>;

/** What somebody waited whose process was there all the time; who waits still has waited until the end of the history. */
function waitOf(operation: Operation, absences: readonly Absence[], end: number | undefined) {
  const { op, process, invokedAt, enteredAt, endedAt } = operation;
  const until = enteredAt ?? endedAt ?? end;
  if (until === undefined || absentBetween(absences, process, invokedAt, until)) return [];
  return [{ op, ms: until - invokedAt }];
}

function hungOf(operations: readonly Operation[], absences: readonly Absence[]): readonly string[] {
  const ended = (one: Operation): boolean =>
    one.endedAt !== undefined || absences.some(({ process, to }) => process === one.process && to === null);
  return operations.filter((one) => !ended(one)).map(({ op }) => op);
}

function absentBetween(absences: readonly Absence[], process: string, from: number, to: number): boolean {
  return absences.some((one) => one.process === process && one.from <= to && (one.to ?? Infinity) >= from);
}

/** From the end of trouble, or of the hold that outlived it, to the next grant. */
function recoveryOf(events: readonly Event[], holds: readonly Hold[]): number | undefined {
  const recoveries = events
    .filter(({ kind }) => kind === 'healed')
    .map(({ at }) => {
      const earlier = holds.filter(({ enteredAt }) => enteredAt < at);
      const freeAt = Math.max(at, ...earlier.map(({ believedUntil }) => believedUntil));
      const next = holds.find(({ enteredAt }) => enteredAt >= at)?.enteredAt ?? Infinity;
      return Math.max(0, next - freeAt);
    });
  return recoveries.length === 0 ? undefined : Math.max(...recoveries);
}
