import type { Event, History, Write } from './events.js';
import { type Hold, holdsOf, type Operation, operationsOf } from './holds.js';
import { companyOf, type Overlap } from './overlaps.js';
import { type FallenToken, fallenTokensOf, type TokenKind } from './tokens.js';

/** What a run has shown. None of it is good or bad by itself: that is for the fault's promises to say. */
export interface Findings {
  readonly acquisitions: number;
  /** How many of them shared the lock. */
  readonly shared: number;
  readonly mostAtOnce: number;
  readonly overlaps: readonly Overlap[];
  /** Grants whose token was not above those of all grants that they came behind: `later` gave the same or less than `earlier`. */
  readonly fallenTokens: readonly FallenToken[];
  /** Writes that overwrote one which their writer had not read. */
  readonly lostUpdates: readonly Write[];
  readonly lostBehindFence: readonly Write[];
  /** Readers who read another value the second time; `believed`: while they believed in the lock. */
  readonly tornReads: readonly { readonly op: string; readonly believed: boolean }[];
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
  readonly tokens: TokenKind;
}

/** Reads a history; changes nothing. */
export function check(history: History, terms: CheckTerms): Findings {
  const operations = operationsOf(history.events);
  const holds = holdsOf(operations);
  const absences = history.events.filter((event) => event.kind === 'absent');
  const waits = operations.flatMap((one) => waitOf(one, absences, history.until));
  return {
    acquisitions: holds.length,
    shared: holds.filter(({ mode }) => mode !== 'exclusive').length,
    ...companyOf(holds),
    fallenTokens: fallenTokensOf(holds, history.events, terms.tokens),
    lostUpdates: lostUpdatesOf(history.register),
    lostBehindFence: lostUpdatesOf(history.fenced),
    tornReads: holds.flatMap(tornReadOf),
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

/** Every write is based on the one before it, or overwrote what it had not read. */
function lostUpdatesOf(writes: readonly Write[]): readonly Write[] {
  return writes.filter(({ basedOn }, i) => basedOn !== (writes[i - 1]?.op ?? ''));
}

function tornReadOf({ op, tornAt, believedUntil }: Hold): Findings['tornReads'] {
  return tornAt === undefined ? [] : [{ op, believed: tornAt <= believedUntil }];
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
