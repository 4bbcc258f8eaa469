import { instanceOf } from '../../../lib/core/store/instance-id.js';
import type { LockMode } from '../../../lib/core/store/lock-store.js';
import {
  type Holder,
  type LockRow,
  type LockTable,
  type PlacedEntry,
  type QueueEntry,
  SILENT_MS,
  type TableHandoff,
} from '../../../lib/stores/memory/lock-table.js';
import type { ReplyBody, Request } from './network.js';
import { KEY } from './scenario.js';

/** The key's state on the server. */
export interface ServerState {
  readonly holders: readonly Holder[];
  readonly queue: readonly Readonly<PlacedEntry>[];
  readonly lastToken: number;
}

/** One request that the table has run, with the states before and after. */
export interface Exchange {
  readonly now: number;
  readonly before: ServerState;
  /** The owners whose instances were subscribed: of the queue, of the request, and the holders that it forces. */
  readonly listening: readonly string[];
  readonly request: Request;
  readonly reply: ReplyBody;
  readonly after: ServerState;
  readonly handoffs: readonly TableHandoff[];
  /** The owners whose locks were released by force. */
  readonly forced: readonly string[];
}

const NO_ROW: LockRow = { holders: [], queue: [] };

/** Returns the table's row of the key. Does not create one, and does not end leases. */
export function rowOf(table: LockTable): LockRow {
  return table.rows.get(KEY) ?? NO_ROW;
}

/** Runs a request on the table. Returns the reply. */
export function replyOf(table: LockTable, { verb, body }: Request): ReplyBody {
  if (verb === 'acquire') return table.acquire(body);
  if (verb === 'forceRelease') return table.forceRelease({ key: KEY, ifToken: undefined, ...body });
  return verb === 'release' ? table.release(body) : table.extend(body);
}

/**
 * Returns how long ago an entry was prompted, in milliseconds, and no more than what makes it count as gone. Undefined
 * if it has repeated its request since.
 */
export function ageOfPrompt({ promptedAt }: Readonly<PlacedEntry>, now: number): number | undefined {
  return promptedAt === undefined ? undefined : Math.min(SILENT_MS, now - promptedAt);
}

/** An entry of a {@link Sample}. */
export interface SampleEntry extends QueueEntry {
  /** Whether it was prompted, and counts as gone by now. */
  readonly prompted?: 'lately' | 'long ago' | undefined;
}

/** A holder of a {@link Sample}. Its owner is renamed, its times are milliseconds from now. */
export interface SampleHolder extends QueueEntry {
  /** The last token minus this holder's. */
  readonly tokenAge: number;
  readonly ttlMs: number;
}

export interface SampleState {
  readonly holders: readonly SampleHolder[];
  readonly queue: readonly SampleEntry[];
}

/** An exchange without what is particular to its run, so that equal ones are one. */
export interface Sample {
  readonly before: SampleState;
  readonly listening: readonly string[];
  readonly verb: Request['verb'];
  readonly owner: string;
  readonly mode: LockMode;
  readonly leaseMs: number;
  readonly closedForMs: number;
  readonly handoffMs: number;
  readonly tokens: number;
  readonly queue: boolean;
  readonly pastDeadline: boolean;
  readonly reply: unknown;
  readonly after: SampleState;
  /** How many tokens were granted or reserved. */
  readonly tokensSpent: number;
  readonly forced: readonly string[];
  readonly handoffs: readonly (QueueEntry &
    Pick<TableHandoff, 'tokens' | 'leaseMs' | 'granted'> & { readonly tokenAge: number })[];
}

/** Returns an exchange as a sample: owners in order of appearance, times from now, tokens from the last one. */
export function sampleOf(exchange: Exchange): Sample {
  const { now, before, listening, request, reply, after, handoffs, forced } = exchange;
  const rename = renamer();
  const state = ({ holders, queue, lastToken }: ServerState): SampleState => ({
    holders: holders.map(({ owner, mode, token, expiresAt }) => {
      return { owner: rename(owner), mode, tokenAge: lastToken - token, ttlMs: expiresAt - now };
    }),
    queue: queue.map((entry) => {
      const ageMs = ageOfPrompt(entry, now);
      const prompted = ageMs === undefined ? undefined : ageMs < SILENT_MS ? 'lately' : 'long ago';
      return { owner: rename(entry.owner), mode: entry.mode, prompted };
    }),
  });
  const body = { leaseMs: 0, closedForMs: 0, handoffMs: 0, tokens: 0, queue: false, expiresAt: now, ...request.body };
  const relative =
    typeof reply === 'object' && 'token' in reply ? { ...reply, token: after.lastToken - (reply.token ?? 0) } : reply;
  return {
    before: state(before),
    listening: listening.map(rename),
    verb: request.verb,
    owner: rename(body.owner),
    mode: body.mode,
    leaseMs: body.leaseMs,
    closedForMs: body.closedForMs,
    handoffMs: body.handoffMs,
    tokens: body.tokens,
    queue: body.queue,
    pastDeadline: now > body.expiresAt,
    reply: relative,
    after: state(after),
    tokensSpent: after.lastToken - before.lastToken,
    forced: forced.map(rename),
    handoffs: handoffs.map(({ owner, mode, token, tokens, leaseMs, granted }) => {
      return { owner: rename(owner), mode, tokenAge: after.lastToken - token, tokens, leaseMs, granted };
    }),
  };
}

/** Returns a function that renames `<instanceId>:<attemptId>` to `A:1` in order of appearance. */
function renamer(): (owner: string) => string {
  const names = new Map<string, string>();
  const attempts = new Map<string, number>();
  return (owner) => {
    const known = names.get(owner);
    if (known !== undefined) return known;
    const instance = instanceOf(owner);
    if (!attempts.has(instance)) attempts.set(instance, 0);
    const letter = 'ABCDEFGH'[[...attempts.keys()].indexOf(instance)];
    const attempt = (attempts.get(instance) as number) + 1;
    attempts.set(instance, attempt);
    const name = `${letter}:${attempt}`;
    names.set(owner, name);
    return name;
  };
}

/** Collects distinct samples. */
export class Samples {
  readonly seen = new Map<string, Sample>();

  add(exchange: Exchange): void {
    const sample = sampleOf(exchange);
    const name = JSON.stringify(sample);
    if (!this.seen.has(name)) this.seen.set(name, sample);
  }
}
