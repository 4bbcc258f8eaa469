import { asked } from '../../support/asked.js';
import { deepStrictEqual, ok } from 'node:assert/strict';
import type { Redis } from 'ioredis';
import { instanceOf } from '../../../lib/contract/instance-id.js';
import type { AcquireReply, AcquireRequest, Held, LockMode } from '../../../lib/contract/store.js';
import { type Entry, type Holder, LockTable, type TableReply } from '../../../lib/stores/memory/lock-table.js';
import { TokenStore } from '../../../lib/stores/token/token.store.js';
import { aboutOf, entryOf } from '../../../lib/stores/token/wire.js';
import { SystemClock } from '../../../lib/clock/clock.js';
import { asPort } from '../../support/client-port.js';
import { randomFrom } from '../../support/random.js';

/** What a run needs. */
interface RandomRunDeps {
  readonly client: Redis;
  /** Subscribed to {@link CHANNELS}. */
  readonly subscriber: Redis;
  /** Sets the server's clock. */
  setClock(us: number): void;
}

/** What runs have done, so that a test can check that they did a bit of everything. */
export const counts = {
  operations: 0,
  grants: 0,
  wakes: 0,
  joins: 0,
  mismatches: 0,
  expiries: 0,
  closed: 0,
  foreign: 0,
  forced: 0,
  transfers: 0,
};

const PREFIX = 'p';
const LIVE = ['live1', 'live2', 'live3'];
export const CHANNELS = LIVE.map((instance) => `${PREFIX}nestjs-redis-lock:v2-${instance}`);
const INSTANCES = [...LIVE, 'dead'];
const KEYS = ['{p}:a', '{p}:b', '{p}:c'];
const MODES: readonly LockMode[] = ['exclusive', 'exclusive', 'exclusive', 'shared', 'shared', 'shared', 2, 3];
const HANDOFF_MS = 1_200;
/** What another client writes. In the table it is an owner that never asks. */
const FOREIGN = 'f47ac10b-58cc';
const FOREIGN_MS = 400;
const START_US = 1_795_000_000_000_000;

type Row = LockTable['rows'] extends Map<string, infer R> ? R : never;

/** A reply of the table, and who had the lock then. */
interface Wanted {
  readonly reply: TableReply;
  readonly holders: readonly Holder[];
}

/**
 * Runs one random sequence on Redis and on the table of `memory()`, on which the explorer runs the engine. Throws if
 * they differ, or if an invariant does not hold.
 */
export async function randomSequence(seed: number, deps: RandomRunDeps, length = 40): Promise<void> {
  const run = new RandomRun(seed, deps);
  try {
    await run.begin();
    for (let i = 0; i < length; i += 1) await run.step();
    await run.end();
  } catch (error) {
    throw new Error(`seed ${seed}: ${String(error)}\n${run.trail.slice(-6).join('\n')}`, { cause: error });
  } finally {
    await run.close();
  }
}

class RandomRun {
  readonly trail: string[] = [];
  private readonly random: () => number;
  private us: number;
  private readonly wakes: string[] = [];
  private readonly tableWakes: string[] = [];
  private readonly table: LockTable;
  private readonly store: TokenStore;
  private readonly lastGrant = new Map<string, number>();
  /** The modes of owners that are not over. */
  private readonly modes = new Map<string, LockMode>();
  private readonly over: string[] = [];
  private attempts = 0;

  constructor(
    seed: number,
    private readonly deps: RandomRunDeps,
  ) {
    this.random = randomFrom(seed);
    this.us = START_US + Math.floor(this.random() * 1e9);
    const isListening = (instance: string): boolean => LIVE.includes(instance);
    this.table = new LockTable({
      now: () => Math.floor(this.us / 1_000),
      wallMicros: () => this.us,
      isListening,
      wake: (key, entry) => {
        if (isListening(instanceOf(entry.owner))) this.tableWakes.push(wakeOf(entry, key));
      },
    });
    const port = asPort(deps.client);
    const redis = () => port;
    this.store = new TokenStore({
      clock: new SystemClock(),
      requestTimeoutMs: 20_000,
      prefix: PREFIX,
      redis,
      open: redis,
    });
  }

  async begin(): Promise<void> {
    this.deps.subscriber.on('message', this.onMessage);
    await this.deps.client.flushall();
    await this.setTime(this.us);
  }

  async step(): Promise<void> {
    const before = new Map(KEYS.map((key) => [key, this.snapshot(key)]));
    const at = this.trail.length;
    await this.operate();
    counts.operations += 1;
    await this.deps.subscriber.ping();
    deepStrictEqual(this.wakes.toSorted(), this.tableWakes.toSorted(), 'wakes');
    counts.wakes += this.wakes.length;
    for (const key of KEYS) {
      await this.compareState(key);
      this.checkInvariants(key, before.get(key), this.trail[at] ?? '');
    }
    this.wakes.length = 0;
    this.tableWakes.length = 0;
  }

  async end(): Promise<void> {
    const { client } = this.deps;
    for (const key of await client.keys('*')) ok((await client.pttl(key)) >= 0, `${key} has a TTL`);
  }

  async close(): Promise<void> {
    this.deps.subscriber.off('message', this.onMessage);
    await this.store.close();
  }

  private readonly onMessage = (_channel: string, message: string): void => void this.wakes.push(message);

  private async operate(): Promise<void> {
    const kind = this.random();
    if (kind < 0.46) await this.acquire();
    else if (kind < 0.72) await this.release();
    else if (kind < 0.8) await this.extend();
    else if (kind < 0.86) await this.setForeign();
    else if (kind < 0.89) await this.force();
    else if (kind < 0.93) await this.transfer();
    else await this.passTime();
  }

  private async acquire(): Promise<void> {
    const several = this.random() >= 0.6;
    const requests = new Map<string, AcquireRequest>();
    for (let i = several ? 2 + Math.floor(this.random() * 3) : 1; i > 0; i -= 1) {
      const key = this.pick(KEYS);
      const owner = this.ownerOf(key);
      const leaseMs = this.pick([50, 500, 5_000]);
      const wait = this.random() < 0.8;
      // An owner has one request on its way.
      const names = { method: this.pick([undefined, 'Shop.buy']), label: this.pick([undefined, 'request 7 ä']) };
      requests.set(owner, { key, owner, mode: this.modeOf(owner), leaseMs, wait, handoffMs: HANDOFF_MS, ...names });
    }
    const all = [...requests.values()];
    this.trail.push(`acquire ${JSON.stringify(all)}`);
    const before = new Map(all.map(({ key }) => [key, this.snapshot(key)]));
    const replies = Promise.all(all.map((request) => asked(this.store).acquire(request)));
    const wanted = this.acquireInTable(all);
    for (const [i, reply] of (await replies).entries()) {
      compareReplies(reply, wanted[i]);
      if (reply.status === 'permits-mismatch') counts.mismatches += 1;
      if (reply.status === 'held' && reply.queued) counts.joins += 1;
      if (reply.status !== 'granted') continue;
      counts.grants += 1;
      const held = before.get(all[i].key)?.lock;
      if (held?.owner === all[i].owner)
        deepStrictEqual(reply.token, held.token, 'a repeated request gets the same token');
    }
  }

  private async release(): Promise<void> {
    const count = this.random() < 0.6 ? 1 : 3;
    const rows = [...this.table.rows.values()];
    const holders = rows.flatMap(({ lock, sharers }) => [lock?.owner ?? '', ...sharers.map(ownerIn)]);
    const holding = holders.filter((owner) => this.modes.has(owner));
    const recent = [...this.modes.keys()].slice(-count * 2);
    let owners = (holding.length > 0 && this.random() < 0.7 ? holding : recent).slice(0, count);
    if (owners.length === 0 || this.random() < 0.05) owners = [this.newOwner(this.pick(KEYS))];
    // Releases are repeated.
    if (this.over.length > 0 && this.random() < 0.1) owners.push(this.pick(this.over));
    const requests = [...new Set(owners)].map((owner) => {
      const closedForMs = this.random() < 0.15 ? 300 : 0;
      const isDone = this.random() < 0.5;
      return { key: keyOf(owner), owner, mode: this.modeOf(owner), closedForMs, isDone, handoffMs: HANDOFF_MS };
    });
    this.trail.push(`release ${JSON.stringify(requests)}`);
    const replies = Promise.all(requests.map((request) => asked(this.store).release(request)));
    const wanted = requests.map(({ key, owner, mode, closedForMs, handoffMs, isDone }) =>
      this.table.release(key, { owner, mode }, closedForMs, handoffMs, isDone),
    );
    deepStrictEqual(await replies, wanted);
    for (const [i, { owner, closedForMs }] of requests.entries()) {
      if (wanted[i] && closedForMs > 0) counts.closed += 1;
      if (!this.over.includes(owner)) this.over.push(owner);
    }
    for (const { owner } of requests) this.modes.delete(owner);
  }

  private async extend(): Promise<void> {
    const owners = [...this.modes.keys()].filter(() => this.random() < 0.4);
    const requests = owners.map((owner) => {
      return { key: keyOf(owner), owner, mode: this.modeOf(owner), leaseMs: this.pick([20, 2_000]) };
    });
    this.trail.push(`extend ${JSON.stringify(requests)}`);
    const replies = this.store.extend(requests);
    const wanted = requests.map(({ key, owner, mode, leaseMs }) => this.table.extend(key, { owner, mode }, leaseMs));
    deepStrictEqual(
      await replies,
      wanted.map((isRenewed) => (isRenewed ? 'renewed' : 'lost')),
    );
  }

  /** Another client's `SET NX PX`. */
  private async setForeign(): Promise<void> {
    const key = this.pick(KEYS);
    this.trail.push(`foreign ${key}`);
    const set = await this.deps.client.set(key, FOREIGN, 'PX', FOREIGN_MS, 'NX');
    const row = this.rowOf(key);
    const isFree = row.lock === undefined && row.sharers.length === 0;
    deepStrictEqual(set === 'OK', isFree, 'a foreign client locks what is free');
    if (!isFree) return;
    counts.foreign += 1;
    row.lock = { owner: FOREIGN, mode: 'exclusive', token: 0, endsAt: this.nowMs + FOREIGN_MS };
  }

  private async force(): Promise<void> {
    const key = this.pick(KEYS);
    this.trail.push(`force ${key}`);
    const { lock } = this.rowOf(key);
    const ifToken = this.random() < 0.3 && lock?.owner !== FOREIGN ? lock?.token : undefined;
    const wanted = this.table.forceRelease(key, HANDOFF_MS, ifToken);
    deepStrictEqual(await this.store.forceRelease({ key, handoffMs: HANDOFF_MS, ifToken }), wanted);
    if (wanted) counts.forced += 1;
  }

  /** An owner gives its lock to another one, or renews it. An owner that is over asks late. */
  private async transfer(): Promise<void> {
    const key = this.pick(KEYS);
    const { lock } = this.rowOf(key);
    const isOwned = lock !== undefined && lock.owner !== FOREIGN && lock.owner !== '';
    const isLate = this.over.length > 0 && this.random() < 0.2;
    const known = isOwned ? lock.owner : this.newOwner(key);
    const from = isLate ? this.pick(this.over) : known;
    const kind = this.random();
    const to = kind < 0.5 ? this.newOwner(key) : kind < 0.75 ? known : from;
    this.modes.set(to, 'exclusive');
    const token = this.random() < 0.5 && isOwned ? lock.token : undefined;
    const restMs = this.random() < 0.3 ? this.pick([20, 400]) : undefined;
    const request = { from, to, leaseMs: this.pick([50, 500, 5_000]), token, restMs };
    this.trail.push(`transfer ${JSON.stringify(request)}`);
    const wanted = this.table.transfer(key, request);
    deepStrictEqual(await asked(this.store).transfer({ key, ...request }), wanted);
    if (wanted.status !== 'transferred') return;
    counts.transfers += 1;
    if (from !== to && from === known) this.over.push(from);
    if (from !== to) this.modes.delete(from);
  }

  private async passTime(): Promise<void> {
    const steps = [1, 16, 17, 1_000, 20_000, 50_000, 51_000, 300_000, 301_000, 500_000, 501_000, 1_200_000];
    // Redis keeps a share that is over until a script reads it. A clock that is set back would restore it there only.
    const isBack = this.random() < 0.1 && KEYS.every((key) => this.rowOf(key).sharers.length === 0);
    const jump = isBack ? -Math.floor(this.random() * 2e6) : this.pick([...steps, 1_201_000, 70_000_000]);
    this.trail.push(`time ${jump}`);
    const isHeld = ({ lock, sharers }: Row): boolean => lock !== undefined || sharers.length > 0;
    const held = [...this.table.rows.values()].filter(isHeld).length;
    // In its last millisecond, a share is over in Redis and not in the table.
    const ends = new Set([...this.table.rows.values()].flatMap(({ sharers }) => sharers.map(({ endsAt }) => endsAt)));
    let us = this.us + jump;
    while (ends.has(Math.floor(us / 1_000))) us += 1_000;
    await this.setTime(us);
    counts.expiries += held - [...this.table.rows.values()].filter(isHeld).length;
  }

  private async setTime(us: number): Promise<void> {
    this.us = us;
    this.deps.setClock(us);
    // Redis removes an expired key when it is read. The clock may be set back later.
    await this.deps.client.exists(...KEYS.flatMap((key) => [key, `${key}|queue`, `${key}|holders`]));
    for (const key of KEYS) this.rowOf(key);
  }

  /** Several free locks get one token, as in the script for several locks. */
  private acquireInTable(requests: readonly AcquireRequest[]): readonly Wanted[] {
    const rows = requests.map(({ key }) => this.rowOf(key));
    const isFree = ({ lock, sharers, queue }: Row): boolean =>
      lock === undefined && sharers.length === 0 && queue.length === 0;
    if (requests.length > 1 && rows.every(isFree)) {
      const token = this.table['nextToken']();
      for (const [i, { owner, mode, leaseMs, method, label }] of requests.entries()) {
        const endsAt = this.nowMs + leaseMs;
        if (mode === 'exclusive') rows[i].lock ??= { owner, mode, token, endsAt, method, label };
      }
    }
    return requests.map(({ key, owner, mode, method, label, leaseMs, wait, handoffMs }) => {
      const reply = this.table.acquire(key, { owner, mode, method, label }, leaseMs, wait, handoffMs);
      return { reply, holders: this.table.holders(key).map((holder) => ({ ...holder })) };
    });
  }

  private get nowMs(): number {
    return Math.floor(this.us / 1_000);
  }

  /** The row of a key, without what has expired. */
  private rowOf(key: string): Row {
    return this.table['rowOf'](key);
  }

  private snapshot(key: string) {
    const { lock, sharers, queue } = this.rowOf(key);
    return { lock: lock && { ...lock }, sharers: sharers.map(ownerIn), queue: queue.map(ownerIn) };
  }

  private async compareState(key: string): Promise<void> {
    const { client } = this.deps;
    const [value, pttl, shares, queue] = await Promise.all([
      client.get(key),
      client.pttl(key),
      client.zrange(`${key}|holders`, 0, '-1', 'WITHSCORES'),
      client.zrange(`${key}|queue`, 0, '-1'),
    ]);
    const row = this.rowOf(key);
    deepStrictEqual(value === null ? null : ofNobody(value), valueOf(row), `value of ${key}`);
    const ends = row.lock === undefined ? row.sharers.map(({ endsAt }) => endsAt) : [row.lock.endsAt];
    deepStrictEqual(pttl, ends.length === 0 ? -2 : Math.max(...ends) - this.nowMs, `life of ${key}`);
    const found = Array.from({ length: shares.length / 2 }, (_, i) => [shares[2 * i], shares[2 * i + 1]] as const);
    const live = found.filter(([, end]) => Number(end) > this.nowMs).map(([entry, end]) => `${ofNobody(entry)} ${end}`);
    const wanted = row.sharers.map((one) => `${textOf(one)} ${one.endsAt}`);
    deepStrictEqual(live.toSorted(), wanted.toSorted(), `holders of ${key}`);
    deepStrictEqual(queue, row.queue.map(entryOf), `queue of ${key}`);
  }

  /** Exclusion, permits, tokens and order, as seen in the states before and after an operation. */
  private checkInvariants(key: string, before: ReturnType<RandomRun['snapshot']> | undefined, operation: string): void {
    const { lock, sharers, queue } = this.rowOf(key);
    const own = lock?.owner === FOREIGN || lock?.owner === '' ? undefined : lock;
    ok(lock === undefined || sharers.length === 0, 'no sharers beside an exclusive holder');
    ok(new Set(sharers.map(({ mode }) => mode)).size <= 1, 'sharers have one mode');
    if (typeof sharers[0]?.mode === 'number') ok(sharers.length <= sharers[0].mode, 'no more sharers than permits');
    const isNew = ({ owner }: Entry): boolean =>
      owner !== '' && before?.lock?.owner !== owner && before?.sharers.includes(owner) !== true;
    // A transfer grants nothing: the lock keeps its token.
    const granted = operation.startsWith('transfer')
      ? []
      : [...(own === undefined ? [] : [own]), ...sharers].filter(isNew);
    for (const { token } of granted.toSorted((a, b) => a.token - b.token)) {
      ok(token - (this.lastGrant.get(key) ?? 0) >= 17, `token ${token} after ${this.lastGrant.get(key)}`);
      this.lastGrant.set(key, token);
    }
    if (before === undefined || operation.startsWith('time')) return;
    // An owner that left the queue without a request of its own was first in it, and was served, woken or dead.
    const stays = new Set(queue.map(ownerIn));
    const others = before.queue.filter((owner) => !operation.includes(`"${owner}"`));
    const served = others.filter((owner) => !stays.has(owner));
    deepStrictEqual(served, others.slice(0, served.length), 'first in, first out');
    for (const owner of served)
      ok(
        owner.startsWith('dead') || this.wakes.some((wake) => wake.startsWith(`${owner} `) && wake.endsWith(` ${key}`)),
        `${owner} left for a reason`,
      );
  }

  private ownerOf(key: string): string {
    const known = [...this.modes.keys()].filter((owner) => keyOf(owner) === key);
    return known.length > 0 && this.random() < 0.6 ? this.pick(known) : this.newOwner(key);
  }

  private newOwner(key: string): string {
    this.attempts += 1;
    const owner = `${this.pick(INSTANCES)}:${this.attempts}${key}`;
    // `<instance>:<attempt>` is all that a store splits at a colon.
    const named = owner.replace('{p}:', '_');
    this.modes.set(named, this.pick(MODES));
    return named;
  }

  private modeOf(owner: string): LockMode {
    const mode = this.modes.get(owner) ?? this.modesOfOver.get(owner) ?? 'exclusive';
    this.modesOfOver.set(owner, mode);
    return mode;
  }

  private readonly modesOfOver = new Map<string, LockMode>();

  private pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.random() * items.length)];
  }
}

function keyOf(owner: string): string {
  return `{p}:${owner.slice(-1)}`;
}

function ownerIn({ owner }: Entry): string {
  return owner;
}

/** The table forgets who has closed a lock or a share. */
function ofNobody(text: string): string {
  return text.replace(/^(v2-!{1,2})[^ !]+/, '$1');
}

/** The entry of a holder, as the scripts write it. */
function textOf({ owner, mode, isDone }: Holder): string {
  if (owner !== '') return entryOf({ owner, mode });
  return entryOf({ owner: isDone === true && mode === 'exclusive' ? '!!' : '!', mode });
}

function valueOf({ lock, sharers }: Row): string | null {
  if (lock === undefined) return sharers.length === 0 ? null : 'v2-*';
  const { owner, limit, token } = lock;
  if (owner === FOREIGN) return FOREIGN;
  return `${textOf(lock)} ${token}${limit === undefined ? aboutOf(lock) : ` ${limit}`}`;
}

function compareReplies(reply: AcquireReply, { reply: wanted, holders }: Wanted): void {
  if (reply.status !== 'held') return deepStrictEqual(reply, wanted);
  const { isFree, isDone, isForeign, holder, ...common } = reply;
  deepStrictEqual({ ...common, isFree: isFree === true, isDone: isDone === true }, wanted);
  deepStrictEqual(isForeign === true, holders[0]?.owner === FOREIGN, 'is foreign');
  if (isForeign !== true) compareHolder(holder, holders);
}

/** The start of a hold depends on how well this process knows the clock of the server. */
function compareHolder(holder: Held['holder'], holders: readonly Holder[]): void {
  const [first] = holders;
  if (first === undefined) deepStrictEqual(holder, undefined);
  // Of several sharers, any may be named.
  else if (first.mode !== 'exclusive') deepStrictEqual(holder?.count, holders.length);
  else {
    const { owner, method, label } = first;
    const instanceId = owner === '' ? holder?.instanceId : instanceOf(owner);
    const { since: _since, ...found } = holder ?? { since: undefined };
    deepStrictEqual(found, { instanceId, method, label });
  }
}

/** The message that wakes an owner, as the scripts write it. */
function wakeOf({ owner, mode }: Entry, key: string): string {
  return `${owner} ${{ exclusive: '-', shared: '*' }[mode] ?? mode} ${key}`;
}
