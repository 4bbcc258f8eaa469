import { channel } from 'node:diagnostics_channel';
import { EventEmitter, once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LockErrorCode } from '../../../../lib/common/errors.js';
import { kindOf, type LockMode } from '../../../../lib/contract/lock-mode.js';
import type { Lock } from '../../../../lib/engine/lock.js';
import type { MultiLock } from '../../../../lib/engine/multi-lock.js';
import type { LockOptions } from '../../../../lib/options/lock.options.js';
import type { LockService } from '../../../../lib/lock.service.js';
import { machineMs } from '../../random.js';
import type { FailReason, HeldGrant, OpEvent } from '../history/events.js';
import type { Caller } from './kinds.js';
import { type Detached, type OrderOf, type Report, RESOURCE } from './orders.js';
import type { Resource, Seen } from './resource.js';

/** Dependencies of the visits. */
export interface VisitsDeps {
  readonly name: string;
  readonly locks: LockService;
  readonly resource: Resource;
  readonly random: () => number;
  readonly log: (event: OpEvent, ordered?: boolean) => void;
  readonly report: (report: Report) => void;
  /** The lease of tickets. */
  readonly ttlMs: number;
  readonly leaving: AbortSignal;
  /** Whether some callers lock exclusively. Then they get the ordered holds. */
  readonly excludes: boolean;
}

type Hold = OrderOf<'hold'>;
type Held = Lock | MultiLock;
/** An event without its time. Default: now. */
type Untimed<E> = E extends OpEvent ? Omit<E, 'at'> & { readonly at?: number } : never;
/** Does the work after the pauses. Returns its event, if it has one. */
type Finish = () => Promise<Untimed<OpEvent> | undefined>;

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
  private resting: 'nobody' | 'writers' | 'all' = 'nobody';
  private readonly going = new EventEmitter();

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
    this.resting = 'all';
  }

  go(readersOnly = false): void {
    this.resting = readersOnly ? 'writers' : 'nobody';
    this.going.emit('go');
  }

  /** Waits while callers of that mode rest. */
  async rested(mode: LockMode): Promise<void> {
    const rests = (): boolean => this.resting === 'all' || (this.resting === 'writers' && mode !== 'shared');
    while (rests()) await once(this.going, 'go');
  }

  async once(caller: Caller): Promise<void> {
    const { name, locks, leaving } = this.deps;
    const op = `${name}.${(this.visits += 1)}`;
    const { mode, resources, company = [] } = caller;
    this.log({ kind: 'invoke', op, process: name, mode, resources });
    const half = company.length / 2;
    const beside = company.slice(0, half).map((own) => this.acquireBeside(own, mode));
    try {
      const options = { signal: leaving, ...optionsFor(mode) };
      const [first, ...others] = resources;
      const acquired = others.length > 0 ? locks.acquire(resources, options) : locks.acquire(first, options);
      beside.push(...company.slice(half).map((own) => this.acquireBeside(own, mode)));
      await this.hold(op, await acquired, caller);
    } catch (error) {
      this.log({ kind: 'fail', op, reason: reasonOf(error) });
    } finally {
      for (const own of beside) void own.then((lock) => lock?.release()).catch(() => undefined);
    }
  }

  /** Continues a visit with its ticket. Releases the lock of some without another hold. */
  async resume({ op, ticket, token, seen }: Detached, ordered?: Hold): Promise<void> {
    const { name, locks, random } = this.deps;
    this.log({ kind: 'resumes', op, process: name });
    try {
      if (ordered === undefined && random() < GIVEN_UP) {
        this.log({ kind: 'left', op });
        await locks.release(RESOURCE, ticket);
        return;
      }
      const lock = await locks.resume(RESOURCE, ticket);
      this.log({ kind: 'resumed', op, token: lock.fencingToken, expiresInMs: lock.expiresInMs });
      await this.work(op, lock, ordered, () => Promise.resolve(this.writeOver(op, token, seen)));
    } catch (error) {
      this.fail(op, error);
    }
  }

  /** Acquires a lock beside that of the workload, if it is free. Its outcome does not count. */
  private acquireBeside(own: string, mode: LockMode): Promise<Lock | undefined> {
    const { locks } = this.deps;
    return locks.acquire(`goods:${own}`, { ...optionsFor(mode), waitMs: 0 }).catch(() => undefined);
  }

  private async hold(op: string, lock: Held, { mode, resources, detaches }: Caller): Promise<void> {
    const ordered = this.orderFor(mode);
    // A visit that begins after a long hold was lost does not end that hold.
    if (ordered !== undefined) this.ending = new AbortController();
    const token = tokenOf(lock);
    const grants = resources.map((name) => grantOf(lock, name));
    const { expiresInMs } = lock;
    this.log(
      { kind: 'entered', op, mode, resources, grants, token: token ?? null, expiresInMs },
      ordered !== undefined,
    );
    if (detaches) await this.detach(op, lock as Lock, token, ordered);
    else await this.work(op, lock, ordered, () => this.begin(op, mode, token));
  }

  /** Reads, and detaches the lock. An ordered hold goes on here, all others in any process. */
  private async detach(op: string, lock: Lock, token: number | undefined, ordered: Hold | undefined): Promise<void> {
    const { report, ttlMs } = this.deps;
    try {
      const seen = await this.see(op, token);
      const from = machineMs();
      const ticket = await lock.detach();
      const at = machineMs();
      // The lease counts from before the request, minus 1 % and 2 ms, as that of a hold does.
      this.log({ kind: 'detached', op, at, expiresInMs: from + ttlMs * 0.99 - 2 - at });
      const visit = { op, ticket, token, seen };
      if (ordered === undefined) report({ kind: 'pass', visit });
      else await this.resume(visit, ordered);
    } catch (error) {
      this.fail(op, error);
    }
  }

  private fail(op: string, error: unknown): void {
    this.log({ kind: 'fail', op, reason: reasonOf(error) });
    this.log({ kind: 'left', op });
  }

  /** Returns the ordered hold, if it is for a caller of that mode. */
  private orderFor(mode: LockMode): Hold | undefined {
    const { ordered } = this;
    if (ordered === undefined || (ordered.reader === true) !== (mode === 'shared')) return undefined;
    // Holders of permits keep nobody out where others lock exclusively.
    if (typeof mode === 'number' && this.deps.excludes) return undefined;
    this.ordered = undefined;
    return ordered;
  }

  private async work(op: string, lock: Held, ordered: Hold | undefined, begin: () => Promise<Finish>): Promise<void> {
    const { ms = 0, lookAfterMs = ms / 2 } = ordered ?? {};
    const note = (): void => this.log({ kind: 'extended', op, expiresInMs: lock.expiresInMs });
    const extended = (event: unknown): void => {
      if (lock.locks.some(({ key }) => key === (event as { key: string }).key)) note();
    };
    lock.signal.addEventListener('abort', () => this.log({ kind: 'lost', op }));
    extensions.subscribe(extended);
    const noting = ordered && setInterval(note, NOTED_EVERY_MS);
    try {
      const finish = await begin();
      await this.pause(ordered, lookAfterMs);
      lock.assertHeld();
      if (ordered !== undefined) this.deps.report({ kind: 'looked', op });
      await this.pause(ordered, ms - lookAfterMs);
      // Without using the processor.
      if (ordered?.block === true) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
      const done = await finish();
      if (done !== undefined) this.log(done);
    } catch (error) {
      if (codeOf(error) === 'LOCK_LOST') this.log({ kind: 'fail', op, reason: 'lost' });
      else this.log({ kind: 'unknown', op, reason: String(error) });
    } finally {
      extensions.unsubscribe(extended);
      clearInterval(noting);
      this.log({ kind: 'left', op });
      lock.release().catch(() => undefined);
    }
  }

  private async pause(ordered: Hold | undefined, ms: number): Promise<void> {
    if (ordered === undefined || ordered.block) return sleep((this.deps.random() * LONGEST_PAUSE_MS) / 2);
    await sleep(ms, undefined, { signal: this.ending?.signal }).catch(() => undefined);
  }

  /** Does the work before the pauses. Of permits, only the number of holders counts. */
  private async begin(op: string, mode: LockMode, token: number | undefined): Promise<Finish> {
    const { resource } = this.deps;
    const kind = kindOf(mode);
    if (kind === 'permits') return () => Promise.resolve(undefined);
    if (kind === 'exclusive') return this.writeOver(op, token, await this.see(op, token));
    const from = machineMs();
    const first = await resource.read();
    // No caller may write in between.
    return async () => ({ kind: 'read', op, from, first, second: await resource.read() });
  }

  private async see(op: string, token: number | undefined): Promise<Seen> {
    const from = machineMs();
    const seen = await this.deps.resource.open(token);
    const { register, fenced, opened } = seen;
    this.log({ kind: 'saw', op, from, register, fenced: opened ? fenced : null });
    return seen;
  }

  /** Writes over what was read. */
  private writeOver(op: string, token: number | undefined, seen: Seen): Finish {
    return async () => {
      this.log({ kind: 'writes', op });
      return { kind: 'ok', op, fencedWrite: await this.deps.resource.write(op, token, seen) };
    };
  }

  private log(event: Untimed<OpEvent>, ordered = false): void {
    this.deps.log({ at: machineMs(), ...event }, ordered);
  }
}

function optionsFor(mode: LockMode): LockOptions {
  return typeof mode === 'number' ? { permits: mode } : { mode };
}

function grantOf({ locks }: Held, name: string): HeldGrant {
  const { token, lease, parts } = locks.find(({ resource }) => resource === name) ?? locks[0];
  return { owner: lease.owner, token, since: machineMs() - (parts.clock.now() - lease['sentAt']) };
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
