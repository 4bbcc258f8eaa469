import { channel } from 'node:diagnostics_channel';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LockErrorCode } from '../../../../lib/common/errors.js';
import type { LockMode } from '../../../../lib/contract/lock-mode.js';
import type { Lock } from '../../../../lib/engine/lock.js';
import type { MultiLock } from '../../../../lib/engine/multi-lock.js';
import type { LockOptions } from '../../../../lib/options/lock.options.js';
import type { LockService } from '../../../../lib/lock.service.js';
import type { FailReason, HeldGrant, OpEvent } from '../history/events.js';
import type { Caller } from './kinds.js';
import { type Detached, type Order, RESOURCE } from './orders.js';
import type { Resource } from './resource.js';
import { Rest } from './rest.js';
import { begin, type Finish, see, writeOver } from './uses.js';

/** Dependencies of the visits. */
export interface VisitsDeps {
  readonly name: string;
  readonly locks: LockService;
  readonly resource: Resource;
  readonly random: () => number;
  readonly now: () => number;
  readonly log: (event: OpEvent, ordered?: boolean) => void;
  /** Called after the last check of an ordered hold's lock. */
  readonly looked: (op: string) => void;
  /** Called with a visit that goes on in another process. */
  readonly pass: (visit: Detached) => void;
  /** The lease of tickets. */
  readonly ttlMs: number;
  readonly leaving: AbortSignal;
  /** Whether some callers lock exclusively. Then they get the ordered holds. */
  readonly excludes: boolean;
}

type Hold = Extract<Order, { kind: 'hold' }>;
type Held = Lock | MultiLock;

const extensions = channel('nestjs-redis-lock:extended');

const LONGEST_PAUSE_MS = 8;
/** How many of the tickets are used only to release the lock. */
const GIVEN_UP = 1 / 8;
/** How often a long hold logs its local deadline: a clock that is set moves it without a renewal. */
const NOTED_EVERY_MS = 50;

/**
 * Each visit reads the registers under the lock, pauses, checks the lock, pauses again, and writes. A reader reads
 * again instead. No lock protects the second pause.
 */
export class Visits {
  private visits = 0;
  private ordered: Hold | undefined;
  private ending: AbortController | undefined;
  private readonly rests = { readers: new Rest(), others: new Rest() };

  constructor(private readonly deps: VisitsDeps) {}

  /** Makes the next visit a long hold. */
  order(hold: Hold): void {
    this.ordered = hold;
  }

  endOrdered(): void {
    this.ordered = undefined;
    this.ending?.abort();
  }

  rest(): void {
    for (const rest of Object.values(this.rests)) rest.begin();
  }

  go(readersOnly = false): void {
    this.rests.readers.end();
    if (!readersOnly) this.rests.others.end();
  }

  /** Waits while callers of that mode rest. */
  rested(mode: LockMode): Promise<void> {
    return this.rests[isReader(mode) ? 'readers' : 'others'].over();
  }

  async once(caller: Caller): Promise<void> {
    const { name, locks, log, now, leaving } = this.deps;
    const op = `${name}.${(this.visits += 1)}`;
    const { mode, resources, company = [] } = caller;
    log({ kind: 'invoke', op, process: name, at: now(), mode, resources });
    const half = company.length / 2;
    const beside = company.slice(0, half).map((own) => this.acquireBeside(own, mode));
    try {
      const options = { signal: leaving, ...optionsFor(mode) };
      const [first, ...others] = resources;
      const acquired = others.length > 0 ? locks.acquire(resources, options) : locks.acquire(first, options);
      beside.push(...company.slice(half).map((own) => this.acquireBeside(own, mode)));
      await this.hold(op, await acquired, caller);
    } catch (error) {
      log({ kind: 'fail', op, at: now(), reason: reasonOf(error) });
    } finally {
      for (const own of beside) void own.then((lock) => lock?.release()).catch(() => undefined);
    }
  }

  /** Acquires a lock beside that of the workload, if it is free. Its outcome does not count. */
  private acquireBeside(own: string, mode: LockMode): Promise<Lock | undefined> {
    const { locks } = this.deps;
    return locks.acquire(`goods:${own}`, { ...optionsFor(mode), waitMs: 0 }).catch(() => undefined);
  }

  private async hold(op: string, lock: Held, { mode, resources, detaches }: Caller): Promise<void> {
    const { log, now } = this.deps;
    const ordered = this.orderFor(mode);
    // A visit that begins after a long hold was lost does not end that hold.
    if (ordered !== undefined) this.ending = new AbortController();
    const token = tokenOf(lock);
    const grants = resources.map((name) => grantOf(lock, name, now()));
    const until = { at: now(), expiresInMs: lock.expiresInMs };
    log({ kind: 'entered', op, mode, resources, grants, token: token ?? null, ...until }, ordered !== undefined);
    if (detaches === true) await this.detach(op, lock as Lock, ordered);
    else await this.work(op, lock, ordered, begin(mode, { ...this.deps, op, token }));
  }

  /** Reads, and detaches the lock. An ordered hold goes on here, all others in any process. */
  private async detach(op: string, lock: Lock, ordered: Hold | undefined): Promise<void> {
    const { log, now, pass, ttlMs } = this.deps;
    try {
      const token = tokenOf(lock);
      const seen = await see({ ...this.deps, op, token });
      const from = now();
      const ticket = await lock.detach();
      const at = now();
      // The lease counts from before the request, minus 1 % and 2 ms, as that of a hold does.
      log({ kind: 'detached', op, at, expiresInMs: from + ttlMs * 0.99 - 2 - at });
      const visit = { op, ticket, token, seen };
      if (ordered === undefined) pass(visit);
      else await this.resume(visit, ordered);
    } catch (error) {
      this.end(op, error);
    }
  }

  /** Continues a visit with its ticket. Releases the lock of some without another hold. */
  async resume({ op, ticket, token, seen }: Detached, ordered?: Hold): Promise<void> {
    const { name, locks, log, now, random } = this.deps;
    log({ kind: 'resumes', op, at: now(), process: name });
    try {
      if (ordered === undefined && random() < GIVEN_UP) {
        this.end(op);
        await locks.release(RESOURCE, ticket);
        return;
      }
      const lock = await locks.resume(RESOURCE, ticket);
      const { fencingToken, expiresInMs } = lock;
      log({ kind: 'resumed', op, at: now(), token: fencingToken, expiresInMs });
      await this.work(op, lock, ordered, Promise.resolve(writeOver(seen, { ...this.deps, op, token })));
    } catch (error) {
      this.end(op, error);
    }
  }

  private end(op: string, error?: unknown): void {
    const { log, now } = this.deps;
    if (error !== undefined) log({ kind: 'fail', op, at: now(), reason: reasonOf(error) });
    log({ kind: 'left', op, at: now() });
  }

  /** Returns the ordered hold, if it is for a caller of that mode. */
  private orderFor(mode: LockMode): Hold | undefined {
    const { ordered } = this;
    if (ordered === undefined || (ordered.reader === true) !== isReader(mode)) return undefined;
    // Holders of permits keep nobody out where others lock exclusively.
    if (mode !== 'exclusive' && !isReader(mode) && this.deps.excludes) return undefined;
    this.ordered = undefined;
    return ordered;
  }

  private async work(op: string, lock: Held, ordered: Hold | undefined, begun: Promise<Finish>): Promise<void> {
    const { log, now, looked } = this.deps;
    const { ms = 0, lookAfterMs = ms / 2 } = ordered ?? {};
    const note = (): void => log({ kind: 'extended', op, at: now(), expiresInMs: lock.expiresInMs });
    const extended = (event: unknown): void => {
      if (lock.locks.some(({ key }) => key === (event as { key: string }).key)) note();
    };
    lock.signal.addEventListener('abort', () => log({ kind: 'lost', op, at: now() }));
    extensions.subscribe(extended);
    const noting = ordered && setInterval(note, NOTED_EVERY_MS);
    try {
      const finish = await begun;
      await this.pause(ordered, lookAfterMs);
      lock.assertHeld();
      if (ordered !== undefined) looked(op);
      await this.pause(ordered, ms - lookAfterMs);
      if (ordered?.block === true) block(ms);
      const done = await finish();
      if (done !== undefined) log(done);
    } catch (error) {
      if (codeOf(error) === 'LOCK_LOST') log({ kind: 'fail', op, at: now(), reason: 'lost' });
      else log({ kind: 'unknown', op, at: now(), reason: String(error) });
    } finally {
      extensions.unsubscribe(extended);
      clearInterval(noting);
      log({ kind: 'left', op, at: now() });
      lock.release().catch(() => undefined);
    }
  }

  private async pause(ordered: Hold | undefined, ms: number): Promise<void> {
    const { random } = this.deps;
    if (ordered === undefined || ordered.block) return sleep((random() * LONGEST_PAUSE_MS) / 2);
    await sleep(ms, undefined, { signal: this.ending?.signal }).catch(() => undefined);
  }
}

/** Blocks the event loop without using the processor. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

function isReader(mode: LockMode): boolean {
  return mode === 'shared';
}

function optionsFor(mode: LockMode): LockOptions {
  return typeof mode === 'number' ? { permits: mode } : { mode };
}

function grantOf({ locks }: Held, name: string, now: number): HeldGrant {
  const { token, lease, parts } = locks.find(({ resource }) => resource === name) ?? locks[0];
  return { owner: lease.owner, token, since: now - (parts.clock.now() - lease['sentAt']) };
}

/** Returns the token of the workload's resource. */
function tokenOf({ locks }: Held): number | undefined {
  try {
    return locks.find(({ resource }) => resource === RESOURCE)?.fencingToken;
  } catch {
    return undefined;
  }
}

/** Why a call got no lock. One of several locks may be lost while the others are waited for. */
const REASONS: { readonly [Code in LockErrorCode]?: FailReason } = {
  LOCK_TIMEOUT: 'busy',
  LOCK_UNAVAILABLE: 'unavailable',
  LOCK_REPLICATION: 'unavailable',
  LOCK_CLOSED: 'closed',
  LOCK_LOST: 'lost',
};

function reasonOf(error: unknown): FailReason {
  const reason = (error as Error).name === 'AbortError' ? 'left' : REASONS[codeOf(error)];
  if (reason === undefined) throw error;
  return reason;
}

/** Returns the code of an error of the library. */
function codeOf(error: unknown): LockErrorCode {
  return (error as { readonly code: LockErrorCode }).code;
}
