import { instanceOf, type LockMode } from '../../lib/core/store/lock-store.js';
import type { QueueEntry, Holder, LockRow } from '../../lib/stores/memory/lock-row.js';
import type { TableHandoff, LockTable } from '../../lib/stores/memory/lock-table.js';
import type { ReplyBody, Request } from './network.js';
import { KEY } from './scenario.js';

/** What the server knows of the key. */
export interface ServerState {
  readonly holders: readonly Holder[];
  readonly queue: readonly QueueEntry[];
  readonly lastToken: number;
}

/** One request as the table ran it. */
export interface Exchange {
  readonly now: number;
  readonly before: ServerState;
  /** Those in the queue whose instance was subscribed, and the asker if its own was. */
  readonly listening: readonly string[];
  readonly request: Request;
  readonly reply: ReplyBody;
  readonly after: ServerState;
  readonly told: readonly TableHandoff[];
}

const NO_ROW: LockRow = { holders: [], queue: [] };

/** The table's row of the key, without making one or looking at leases. */
export function rowOf(table: LockTable): LockRow {
  return table.rows.get(KEY) ?? NO_ROW;
}

/** The table's word on a request. */
export function answerOf(table: LockTable, { verb, body }: Request): ReplyBody {
  if (verb === 'acquire') return table.acquire(body);
  return verb === 'release' ? table.release(body) : table.extend(body);
}

/** Owners and times as they are told in a {@link Sample}: `A1`, and milliseconds from now. */
export interface SampleHolder extends QueueEntry {
  /** How far behind the last token the holder's is. */
  readonly tokenAge: number;
  readonly ttlMs: number;
}

export interface SampleState {
  readonly holders: readonly SampleHolder[];
  readonly queue: readonly QueueEntry[];
}

/** An exchange freed from the run in which it was seen, so that equal ones are one. */
export interface Sample {
  readonly before: SampleState;
  readonly listening: readonly string[];
  readonly verb: Request['verb'];
  readonly owner: string;
  readonly mode: LockMode;
  readonly leaseMs: number;
  readonly keepMs: number;
  readonly handoffMs: number;
  readonly tokens: number;
  readonly queue: boolean;
  readonly pastDeadline: boolean;
  readonly reply: unknown;
  readonly after: SampleState;
  /** How many tokens were given or set aside. */
  readonly tokensSpent: number;
  readonly told: readonly (QueueEntry &
    Pick<TableHandoff, 'tokens' | 'leaseMs' | 'granted'> & { readonly tokenAge: number })[];
}

/** Frees an exchange from its run: names in order of appearance, times from now, tokens from the last one. */
export function sampleOf({ now, before, listening, request, reply, after, told }: Exchange): Sample {
  const rename = renamer();
  const state = ({ holders, queue, lastToken }: ServerState): SampleState => ({
    holders: holders.map(({ owner, mode, token, expiresAt }) => {
      return { owner: rename(owner), mode, tokenAge: lastToken - token, ttlMs: expiresAt - now };
    }),
    queue: queue.map(({ owner, mode }) => ({ owner: rename(owner), mode })),
  });
  const body = { leaseMs: 0, keepMs: 0, handoffMs: 0, tokens: 0, queue: false, expiresAt: now, ...request.body };
  const relative =
    typeof reply === 'object' && 'token' in reply ? { ...reply, token: after.lastToken - (reply.token ?? 0) } : reply;
  return {
    before: state(before),
    listening: listening.map(rename),
    verb: request.verb,
    owner: rename(body.owner),
    mode: body.mode,
    leaseMs: body.leaseMs,
    keepMs: body.keepMs,
    handoffMs: body.handoffMs,
    tokens: body.tokens,
    queue: body.queue,
    pastDeadline: now > body.expiresAt,
    reply: relative,
    after: state(after),
    tokensSpent: after.lastToken - before.lastToken,
    told: told.map(({ owner, mode, token, tokens, leaseMs, granted }) => {
      return { owner: rename(owner), mode, tokenAge: after.lastToken - token, tokens, leaseMs, granted };
    }),
  };
}

/** `<instanceId>:<askId>` as `A:1`, the instances and each one's asks counted as they come. */
function renamer(): (owner: string) => string {
  const names = new Map<string, string>();
  const asks = new Map<string, number>();
  return (owner) => {
    const known = names.get(owner);
    if (known !== undefined) return known;
    const instance = instanceOf(owner);
    if (!asks.has(instance)) asks.set(instance, 0);
    const letter = 'ABCDEFGH'[[...asks.keys()].indexOf(instance)];
    const ask = (asks.get(instance) as number) + 1;
    asks.set(instance, ask);
    const name = `${letter}:${ask}`;
    names.set(owner, name);
    return name;
  };
}

/** Collects what was seen, each once. */
export class Samples {
  readonly seen = new Map<string, Sample>();

  add(exchange: Exchange): void {
    const sample = sampleOf(exchange);
    const name = JSON.stringify(sample);
    if (!this.seen.has(name)) this.seen.set(name, sample);
  }
}
