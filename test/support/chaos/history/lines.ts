import type { LockMode } from '../../../../lib/contract/lock-mode.js';
import type { Event, History, OpEvent } from './events.js';
import { THE_RESOURCE } from './holds.js';

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

type Kind<Name extends OpEvent['kind']> = Extract<OpEvent, { kind: Name }>;

/** The events of one visit. */
interface Visit {
  readonly invoke: Kind<'invoke'>;
  entered?: Kind<'entered'>;
  /** Until when it trusted its lock, and why no longer. */
  end: number;
  why: string;
  saw?: Kind<'saw'>;
  writes?: Kind<'writes'>;
  ok?: Kind<'ok'>;
  read?: Kind<'read'>;
  fail?: Kind<'fail'>;
}

/** The server may have lost what it had granted before `to`. */
interface Loss {
  readonly from: number;
  readonly to: number;
}

/** Returns the operations of a history, in the order of their calls. */
export function linesOf(history: History): readonly Line[] {
  const { until = Infinity } = history;
  const events = history.events.filter(({ at }) => at <= until);
  const visits = visitsOf(events);
  const losses = lossesOf(events);
  const since = grantsOf(visits);
  const locks = visits.flatMap((visit) => lockLines(visit, losses, since));
  const registers = visits.flatMap(registerLines);
  // Processes that were not stopped may have written since.
  const last = history.until === undefined ? lastReads(history) : [];
  return [...locks, ...registers, ...last].toSorted((one, other) => one.call - other.call);
}

function visitsOf(events: readonly Event[]): readonly Visit[] {
  const visits = new Map<string, Visit>();
  for (const event of events) {
    if (event.kind === 'invoke') visits.set(event.op, { invoke: event, end: Infinity, why: 'expired' });
    else if ('op' in event) apply(visits.get(event.op), event);
  }
  return [...visits.values()];
}

function apply(visit: Visit | undefined, event: Exclude<OpEvent, { kind: 'invoke' }>): void {
  if (visit === undefined) throw new Error(`the history has no beginning of ${event.op}`);
  const { kind, at } = event;
  if ('expiresInMs' in event) {
    const { expiresInMs } = event;
    // A lease that is over stays over. A renewal may be read after the deadline that it replaces.
    if (visit.why === 'expired' && (kind !== 'extended' || expiresInMs !== 0))
      visit.end = at + (expiresInMs ?? Infinity);
    if (kind === 'entered') visit.entered = event;
  } else if (kind === 'left' || kind === 'lost') {
    if (at >= visit.end) return;
    visit.end = at;
    visit.why = kind === 'left' ? 'released' : 'lost';
  } else if (kind !== 'unknown') Object.assign(visit, { [kind]: event });
}

/** A smaller difference between the server's clock and the machine's is only a late reading. */
const READING_MS = 1_000;

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
function grantsOf(visits: readonly Visit[]): ReadonlyMap<string, number> {
  const since = new Map<string, number>();
  for (const { owner, since: first } of visits.flatMap(({ entered }) => entered?.grants ?? []))
    since.set(owner, Math.min(since.get(owner) ?? Infinity, first));
  return since;
}

function lockLines(visit: Visit, losses: readonly Loss[], since: ReadonlyMap<string, number>): readonly Line[] {
  const { invoke, entered, fail } = visit;
  const { mode = 'exclusive', resources = THE_RESOURCE } = entered ?? invoke;
  return resources.flatMap((key, i): Line[] => {
    const what = { id: invoke.op, process: invoke.process, key, mode: nameOf(mode) };
    const acquire = { ...what, op: 'acquire', call: invoke.at } as const;
    if (entered === undefined) return [{ ...acquire, return: fail?.at ?? null, outcome: fail?.reason ?? 'unknown' }];
    const { owner, token } = entered.grants?.[i] ?? { owner: '', token: entered.token ?? undefined };
    const granted = since.get(owner) ?? invoke.at;
    const loss = losses.find(({ from, to }) => from < visit.end && granted <= to);
    const call = loss === undefined ? invoke.at : granted;
    // A grant that was over before its caller had it ended at an unknown moment.
    const trusted = visit.end <= entered.at ? call : visit.end;
    const end = loss === undefined ? trusted : Math.min(trusted, Math.max(loss.from, granted));
    const outcome = loss === undefined ? visit.why : 'taken';
    return [
      { ...acquire, call, return: entered.at, outcome: 'ok', token },
      // No reply says when the server has ended the grant.
      { ...what, op: 'end', call: end, return: null, outcome, token },
    ];
  });
}

function nameOf(mode: LockMode): string {
  return typeof mode === 'number' ? `permits:${mode}` : mode;
}

function registerLines(visit: Visit): readonly Line[] {
  const { invoke, saw, writes, ok, read } = visit;
  const what = { id: invoke.op, process: invoke.process };
  const lines: Line[] = [];
  if (read !== undefined) {
    const { from = read.at, at, first, second } = read;
    lines.push({
      ...what,
      op: 'read',
      key: UNFENCED,
      call: from,
      return: at,
      outcome: 'ok',
      read: first,
      again: second,
    });
  }
  if (saw === undefined) return lines;
  const { from, at, register, fenced } = saw;
  const use = (key: string, seen: string, outcome: string): void => {
    // What was read and written in one step: nobody wrote in between.
    const update = { ...what, op: 'update', key, call: from, value: invoke.op, read: seen } as const;
    if (outcome === 'ok') lines.push({ ...update, return: ok?.at ?? null, outcome });
    else lines.push({ ...what, op: 'read', key, call: from, return: at, outcome: 'ok', read: seen });
    if (outcome === 'unknown') lines.push({ ...update, return: null, outcome });
    if (outcome === 'refused') lines.push({ ...update, return: ok?.at ?? null, outcome });
  };
  const unfenced = ok === undefined ? 'unknown' : 'ok';
  use(UNFENCED, register, writes === undefined ? 'unsent' : unfenced);
  if (fenced === null) return lines;
  const behind = ok === undefined || ok.fencedWrite === null ? 'unknown' : ok.fencedWrite ? 'ok' : 'refused';
  use(FENCED, fenced, writes === undefined ? 'unsent' : behind);
  return lines;
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

/** Returns the lines as the text of a file. */
export function textOf(lines: readonly Line[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}
