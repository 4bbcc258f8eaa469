import type { Event, EventOf, History, Write } from './events.js';
import { type Hold, holdsOf, type Operation, operationsOf } from './holds.js';
import { concurrencyOf, type Overlap } from './overlaps.js';
import { type FallenToken, fallenTokensOf, type TokenKind } from './tokens.js';

/** A duration of an operation. */
export interface Lasting {
  readonly op: string;
  readonly ms: number;
}

/** What the checker found in a history. The fault's promises decide what is a breach. */
export interface Findings {
  readonly acquisitions: number;
  /** How many acquisitions shared the lock. */
  readonly shared: number;
  readonly mostAtOnce: number;
  readonly overlaps: readonly Overlap[];
  /** Grants whose token did not rise: `later` has the same token as `earlier`, or a lower one. */
  readonly fallenTokens: readonly FallenToken[];
  /** Writes that overwrote a write which their writer had not read. */
  readonly lostUpdates: readonly Write[];
  /** `excused`: the count of tokens began again meanwhile, and both writers had the same token. */
  readonly lostBehindFence: readonly (Write & { readonly excused: boolean })[];
  /**
   * Reads whose second value differs. `trusted`: the reader still trusted its lock, and so did the writer when it
   * wrote. A writer that was stopped past its lease and does not look before it writes is stopped by a fence only.
   */
  readonly tornReads: readonly { readonly op: string; readonly trusted: boolean }[];
  /** Acknowledged elements that are missing in the set. */
  readonly lostElements: readonly string[];
  /** Waits for the lock, or for a refusal, that were longer than `longWaitMs`. */
  readonly longWaits: readonly Lasting[];
  readonly longestWaitMs: number;
  /** The longest part of a wait in which nobody trusted the lock, and no fault was going on. */
  readonly longestFreeMs: number;
  /** Operations that never ended although their process was alive. */
  readonly hung: readonly string[];
  /** Holds that were lost before their work was done. */
  readonly lostHolds: readonly string[];
  /** How long operations trusted their locks that were released by force. */
  readonly trustedAfterForce: readonly Lasting[];
  /** Operations whose request failed, or was refused because their process was shutting down. */
  readonly unavailable: readonly string[];
  readonly leftovers: readonly string[];
  /**
   * The longest time from the end of a fault, or of a hold that outlived it, to the next grant. Undefined without a
   * fault.
   */
  readonly recoveryMs: number | undefined;
}

/** Options of the checker. */
export interface CheckTerms {
  readonly longWaitMs: number;
  readonly tokens: TokenKind;
}

interface Span {
  readonly from: number;
  readonly to: number;
}

/** Returns the findings of a history. */
export function check({ events, ...history }: History, { longWaitMs, tokens }: CheckTerms): Findings {
  const operations = operationsOf(events);
  const holds = holdsOf(operations);
  const absences = events.filter((event) => event.kind === 'absent');
  const waits = operations.flatMap((one) => waitOf(one, absences, history.until));
  const held = holds.map(({ enteredAt, trustedUntil }) => ({ from: enteredAt, to: trustedUntil }));
  const taken = [...held, ...faultsOf(events)].toSorted((one, other) => one.from - other.from);
  const set = new Set(history.set);
  const isExcused = (write: Write): boolean =>
    tokens === 'counter' && haveOneToken(write, history.fenced, holds, events);
  return {
    acquisitions: holds.length,
    shared: holds.filter(({ mode }) => mode !== 'exclusive').length,
    ...concurrencyOf(holds),
    fallenTokens: fallenTokensOf(holds, events, tokens),
    lostUpdates: lostUpdatesOf(history.register),
    lostBehindFence: lostUpdatesOf(history.fenced).map((write) => ({ ...write, excused: isExcused(write) })),
    tornReads: tornReadsOf(holds),
    lostElements: opsOf(operations, ({ op, ok }) => ok !== undefined && !set.has(op)),
    longWaits: waits.filter(({ ms }) => ms > longWaitMs).map(({ op, ms }) => ({ op, ms })),
    longestWaitMs: Math.max(0, ...waits.map(({ ms }) => ms)),
    longestFreeMs: Math.max(0, ...waits.map((wait) => freeMs(wait, taken))),
    hung: opsOf(operations, (one) => hangs(one, absences)),
    lostHolds: opsOf(holds, ({ lost }) => lost !== undefined),
    trustedAfterForce: holds.flatMap((hold) => trustedAfterForce(hold, events)),
    unavailable: opsOf(operations, ({ fail }) => fail?.reason === 'unavailable' || fail?.reason === 'closed'),
    leftovers: history.leftovers,
    recoveryMs: recoveryOf(events, holds),
  };
}

function opsOf(operations: readonly Operation[], are: (one: Operation) => boolean): readonly string[] {
  return operations.filter(are).map(({ op }) => op);
}

/** Returns the writes that are not based on the write before them. */
function lostUpdatesOf(writes: readonly Write[]): readonly Write[] {
  return writes.filter(({ basedOn }, i) => basedOn !== (writes[i - 1]?.op ?? ''));
}

/**
 * Returns whether a writer and the writer before it had one token, because the server lost its count of tokens between
 * their grants. A fence admits both.
 */
function haveOneToken(
  write: Write,
  writes: readonly Write[],
  holds: readonly Hold[],
  events: readonly Event[],
): boolean {
  const before = writes[writes.indexOf(write) - 1]?.op;
  const [earlier, later] = [before, write.op].map((op) => holds.find((hold) => hold.op === op));
  if (earlier === undefined || later === undefined || earlier.token !== later.token) return false;
  const [from, to] = [earlier.enteredAt, later.enteredAt].toSorted((one, other) => one - other);
  return events.some((event) => event.kind === 'dataLost' && event.to >= from && event.at <= to);
}

function tornReadsOf(holds: readonly Hold[]): Findings['tornReads'] {
  return holds.flatMap(({ op, read, trustedUntil }) => {
    if (read === undefined || read.first === read.second) return [];
    const writer = holds.find((hold) => hold.op === read.second);
    const isLate = writer?.ok !== undefined && writer.ok.at > writer.trustedUntil;
    return [{ op, trusted: read.at <= trustedUntil && !isLate }];
  });
}

type Absence = EventOf<'absent'>;

/** Returns when an operation ended. Undefined if it never did. */
function endOf({ entered, left, fail }: Operation): number | undefined {
  return left?.at ?? (entered === undefined ? fail?.at : undefined);
}

/** Returns the wait of an operation, unless its process was absent meanwhile. An open wait ends with the history. */
function waitOf(one: Operation, absences: readonly Absence[], end: number | undefined): readonly (Lasting & Span)[] {
  const { at: from, process } = one.invoke;
  const to = one.entered?.at ?? endOf(one) ?? end;
  const wasAbsent = (until: number): boolean =>
    absences.some((each) => each.process === process && each.from <= until && (each.to ?? Infinity) >= from);
  return to === undefined || wasAbsent(to) ? [] : [{ op: one.op, from, to, ms: to - from }];
}

/** Returns when faults were going on. */
function faultsOf(events: readonly Event[]): readonly Span[] {
  const healedAt = events.filter(({ kind }) => kind === 'healed').map(({ at }) => at);
  const begun = events.filter(({ kind }) => kind === 'injected');
  return begun.map(({ at }) => ({ from: at, to: healedAt.find((end) => end >= at) ?? Infinity }));
}

/** Returns how long a wait lasted beside these spans, which are sorted by their beginnings. */
function freeMs({ from, to }: Span, taken: readonly Span[]): number {
  let [free, until] = [0, from];
  for (const span of taken) {
    if (span.from >= to) break;
    free += Math.max(0, span.from - until);
    until = Math.max(until, span.to);
  }
  return free + Math.max(0, to - until);
}

function trustedAfterForce({ op, trustedUntil }: Hold, events: readonly Event[]): readonly Lasting[] {
  const forced = events.filter((event) => event.kind === 'forced' && event.former === op);
  return forced.map(({ at }) => ({ op, ms: Math.max(0, trustedUntil - at) }));
}

function hangs(one: Operation, absences: readonly Absence[]): boolean {
  const { holder } = one;
  const isOver = endOf(one) !== undefined || holder === '';
  return !isOver && !absences.some(({ process, to }) => process === holder && to === null);
}

/** Returns the longest time from the end of a fault, or of the hold that outlived it, to the next grant. */
function recoveryOf(events: readonly Event[], holds: readonly Hold[]): number | undefined {
  const recoveries = events
    .filter(({ kind }) => kind === 'healed')
    .map(({ at }) => {
      const earlier = holds.filter(({ enteredAt }) => enteredAt < at);
      const freeAt = Math.max(at, ...earlier.map(({ trustedUntil }) => trustedUntil));
      const next = holds.find(({ enteredAt }) => enteredAt >= at)?.enteredAt ?? Infinity;
      return Math.max(0, next - freeAt);
    });
  return recoveries.length === 0 ? undefined : Math.max(...recoveries);
}
