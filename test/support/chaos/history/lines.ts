import type { LockMode } from '../../../../lib/contract/lock-mode.js';
import type { Event, History } from './events.js';
import { type Operation, operationsOf, THE_RESOURCE } from './holds.js';
import { READING_MS } from './tokens.js';

/** One operation of a history, which is a line of JSON. `labs/chaos/judge/README.md` describes the format. */
export interface Line {
  readonly op: 'acquire' | 'end' | 'read' | 'update';
  /** The visit that it belongs to. */
  readonly id: string;
  readonly process: string;
  /** The resource of a lock, or a register. */
  readonly key: string;
  /** `exclusive`, `shared`, or `permits:3`. Only of locks. */
  readonly mode?: string;
  /** Milliseconds of the machine's clock. */
  readonly call: number;
  /** Null: it never returned, or nobody knows when. */
  readonly return: number | null;
  readonly outcome: string;
  readonly token?: number | undefined;
  /** What was read. `again`: the second value of a reader. */
  readonly read?: string;
  readonly again?: string;
  /** What was written. */
  readonly value?: string;
}

/** The keys of the registers. */
export const FENCED = 'register behind the fence';
export const UNFENCED = 'register';

/** The server may have lost what it had granted before `to`. */
interface Loss {
  readonly from: number;
  readonly to: number;
}

/** Returns a history as the text of a file: its operations, in the order of their calls. */
export function linesOf(history: History): string {
  const { until = Infinity } = history;
  const events = history.events.filter(({ at }) => at <= until);
  const operations = operationsOf(events);
  const losses = lossesOf(events);
  const since = grantsOf(operations);
  const locks = operations.flatMap((one) => lockLines(one, losses, since));
  const registers = operations.flatMap(registerLines);
  // Processes that were not stopped may have written since.
  const last = history.until === undefined ? lastReads(history) : [];
  const lines = [...locks, ...registers, ...last].toSorted((one, other) => one.call - other.call);
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}

/** Returns when the server lost locks, by the harness: all data, the lock's key, a release by force, a clock ahead. */
function lossesOf(events: readonly Event[]): readonly Loss[] {
  const readings = events.filter((event) => event.kind === 'clock');
  return events.flatMap((event) => {
    if (event.kind === 'dataLost' || event.kind === 'lockDeleted') return [{ from: event.at, to: event.to }];
    if (event.kind === 'forced') return [{ from: event.at, to: event.at }];
    if (event.kind !== 'clock') return [];
    const before = readings[readings.indexOf(event) - 1] ?? event;
    const jumped = event.server - event.at > before.server - before.at + READING_MS;
    return jumped ? [{ from: before.at, to: event.at }] : [];
  });
}

/** Returns the first moment of each grant of the store. One grant may serve several callers of an instance. */
function grantsOf(operations: readonly Operation[]): ReadonlyMap<string, number> {
  const since = new Map<string, number>();
  for (const { owner, since: first } of operations.flatMap(({ entered }) => entered?.grants ?? []))
    since.set(owner, Math.min(since.get(owner) ?? Infinity, first));
  return since;
}

function lockLines(one: Operation, losses: readonly Loss[], since: ReadonlyMap<string, number>): readonly Line[] {
  const { invoke, entered, fail, keptUntil, endedBy } = one;
  const { mode = 'exclusive', resources = THE_RESOURCE } = entered ?? invoke;
  return resources.flatMap((key, i): Line[] => {
    const what = { id: invoke.op, process: invoke.process, key, mode: nameOf(mode) };
    const acquire = { ...what, op: 'acquire', call: invoke.at } as const;
    if (entered === undefined) return [{ ...acquire, return: fail?.at ?? null, outcome: fail?.reason ?? 'unknown' }];
    const { owner, token } = entered.grants?.[i] ?? { owner: '', token: entered.token ?? undefined };
    const granted = since.get(owner) ?? invoke.at;
    const loss = losses.find(({ from, to }) => from < keptUntil && granted <= to);
    const call = loss === undefined ? invoke.at : granted;
    // A grant that was over before its caller had it ended at an unknown moment.
    const trusted = keptUntil <= entered.at ? call : keptUntil;
    const end = loss === undefined ? trusted : Math.min(trusted, Math.max(loss.from, granted));
    return [
      { ...acquire, call, return: entered.at, outcome: 'ok', token },
      // No reply says when the server has ended the grant.
      { ...what, op: 'end', call: end, return: null, outcome: loss === undefined ? endedBy : 'taken', token },
    ];
  });
}

function nameOf(mode: LockMode): string {
  return typeof mode === 'number' ? `permits:${mode}` : mode;
}

function registerLines({ invoke, saw, writes, ok, read }: Operation): readonly Line[] {
  const what = { id: invoke.op, process: invoke.process };
  if (read !== undefined) {
    const { from = read.at, at, first, second } = read;
    const between = { call: from, return: at, outcome: 'ok' };
    return [{ ...what, op: 'read', key: UNFENCED, ...between, read: first, again: second }];
  }
  if (saw === undefined) return [];
  const { from, at, register, fenced } = saw;
  const use = (key: string, seen: string, admitted: boolean | null | undefined): readonly Line[] => {
    // What was read and written in one step: nobody wrote in between.
    const update = { ...what, op: 'update', key, call: from, value: invoke.op, read: seen } as const;
    if (admitted === true) return [{ ...update, return: ok?.at ?? null, outcome: 'ok' }];
    const only = { ...what, op: 'read', key, call: from, return: at, outcome: 'ok', read: seen } as const;
    if (writes === undefined) return [only];
    if (admitted === false) return [only, { ...update, return: ok?.at ?? null, outcome: 'refused' }];
    return [only, { ...update, return: null, outcome: 'unknown' }];
  };
  return [...use(UNFENCED, register, ok && true), ...(fenced === null ? [] : use(FENCED, fenced, ok?.fencedWrite))];
}

/** Returns a read of each register by the harness, after all other operations. */
function lastReads({ events, register, fenced }: History): readonly Line[] {
  const at = Math.max(0, ...events.map((event) => event.at)) + 1;
  const what = { op: 'read', id: 'end', process: 'harness', call: at, return: at, outcome: 'ok' } as const;
  return [
    { ...what, key: UNFENCED, read: register.at(-1)?.op ?? '' },
    { ...what, key: FENCED, read: fenced.at(-1)?.op ?? '' },
  ];
}
