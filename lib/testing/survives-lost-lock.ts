import { relative } from 'node:path';
import { contextOfCaller } from '../core/context/async-context.js';
import { aFunction, checkOptions, checkValue, type OptionRules, wholeNumber } from '../core/checks/check-options.js';
import { type GrantedEvent, lockChannels } from '../core/events/diagnostics.js';
import type { Grant } from '../core/lease/grant.js';
import type { CallSite } from '../core/context/call-site.js';
import { atEndOfTick, SystemClock } from '../core/time/clock.js';
import { isLockService, type LockService } from '../lock.service.js';
import { LostLockFailure, type UnsafeAwait } from './lost-lock-failure.js';
import type { ManualClock } from './manual-clock.js';
import { manualClocksOf, testServices } from './test-services.js';
import { watchAwaits } from './watch-awaits.js';

/**
 * The options of {@link survivesLostLock}.
 *
 * @publicApi
 */
export interface LostLockOptions {
  /** Resets the state. Called before each run. Default: nothing. */
  readonly setup?: (() => unknown) | undefined;
  /** What the second holder does. Default: the same call. */
  readonly second?: (() => unknown) | undefined;
  /** The lock services whose locks are lost. Default: all that `nestjs-redis-lock/testing` started. */
  readonly locks?: LockService | readonly LockService[] | undefined;
  /** Looks only at awaits in files whose path matches. Default: all files outside of `node_modules`. */
  readonly files?: RegExp | undefined;
  /**
   * How many times the call may run. A complete check needs two more runs than the call has awaits under its locks.
   *
   * @default 1000
   */
  readonly maxRuns?: number | undefined;
  /**
   * How long one run may take, in milliseconds of real time.
   *
   * @default 20000
   */
  readonly timeoutMs?: number | undefined;
}

/**
 * What {@link survivesLostLock} has checked.
 *
 * @publicApi
 */
export interface LostLockReport {
  /** How many times the call has run. */
  readonly runs: number;
  /** The awaits after which the lock was lost, such as `src/shop.service.ts:41:20`. */
  readonly awaits: readonly string[];
}

const DEFAULT_MAX_RUNS = 1_000;
const DEFAULT_TIMEOUT_MS = 20_000;

/** How many turns of the event loop a caller may wait for a lock before the manual clocks advance. */
const TURNS_PER_STEP = 50;
const STEP_MS = 100;

const isService = (value: unknown): boolean => isLockService(value);

const RULES: OptionRules<LostLockOptions> = {
  setup: aFunction,
  second: aFunction,
  locks: {
    allowed: 'a LockService, or a list of them',
    fits: (value) => isService(value) || (Array.isArray(value) && value.length > 0 && value.every(isService)),
  },
  files: { allowed: 'a regular expression', fits: (value) => value instanceof RegExp },
  maxRuns: wholeNumber(1, 1_000_000),
  timeoutMs: wholeNumber(1, 2 ** 31 - 1),
};

let isRunning = false;

/**
 * Checks that a call does no harm if it loses its lock. Runs it once as it is, and then once for each `await` under its
 * locks. At that `await`, all locks of the call are lost, another holder gets them and runs to completion, and the call
 * continues, as after a pause that is longer than the lease. After each run, the invariant must hold.
 *
 * Watches each `await` of a promise in the program's code, even in handlers that the call reaches over HTTP. The code
 * must be compiled to native `async` functions, for ES2017 or later. The call continues with an aborted `lock.signal`.
 * Errors of the call and of the second holder are ignored after a loss.
 *
 * ```ts
 * await survivesLostLock(() => service.buy(300), () => expect(stock.sold).toBeLessThanOrEqual(1), { setup });
 * ```
 *
 * @param work the call. It must succeed without a loss.
 * @param invariant throws, rejects or returns false if it does not hold.
 * @throws LostLockFailure that names the awaits after which `assertHeld()` or a fence is missing.
 * @throws Error if nothing could be checked: no await was under a lock, the invariant does not hold without a loss, or
 * the second holder was not granted the lock. Also thrown if `maxRuns` is too low and the first runs found nothing.
 *
 * @publicApi
 */
export async function survivesLostLock(
  work: () => unknown,
  invariant: () => unknown,
  options: LostLockOptions = {},
): Promise<LostLockReport> {
  const place = 'survivesLostLock()';
  checkValue(place, 'the work', work, aFunction);
  checkValue(place, 'the invariant', invariant, aFunction);
  const known = checkOptions(place, options, RULES);
  const services = known.locks === undefined ? testServices() : [known.locks].flat();
  if (services.length === 0)
    throw new Error(`${place}: nestjs-redis-lock/testing has not started a lock service; give one in \`locks\`.`);
  if (isRunning) throw new Error(`${place} is already running; run one at a time, because it watches all awaits.`);
  isRunning = true;
  try {
    return await new LostLockCheck(work, invariant, known, services).run();
  } finally {
    isRunning = false;
  }
}

/** A lock that the call holds. */
interface HeldGrant {
  readonly service: LockService;
  readonly grant: Grant;
}

/** What happened in one run. */
interface Run {
  /** How many awaits were under a lock. */
  awaits: number;
  /** Where the locks were lost. Undefined if the call had fewer awaits. */
  lostAt: CallSite | undefined;
  resources: readonly string[];
  /** Why the second holder could not work. */
  problem: Error | undefined;
  /** How the call failed. */
  error: { readonly reason: unknown } | undefined;
}

class LostLockCheck {
  private readonly clocks: readonly ManualClock[];
  // The second holder is in the context of the test, and in no lock or lock scope of the call.
  private readonly context = contextOfCaller('survivesLostLock');

  constructor(
    private readonly work: () => unknown,
    private readonly invariant: () => unknown,
    private readonly options: LostLockOptions,
    private readonly services: readonly LockService[],
  ) {
    this.clocks = manualClocksOf(services);
  }

  async run(): Promise<LostLockReport> {
    const { maxRuns = DEFAULT_MAX_RUNS } = this.options;
    await this.checkWithoutLoss();
    const awaits = new Set<string>();
    const unsafe = new Map<string, UnsafeAwait>();
    for (let at = 0; ; at += 1) {
      if (at + 1 >= maxRuns) throw tooManyRuns(maxRuns, [...unsafe.values()]);
      const { lostAt, resources, problem } = await this.runOnce(at);
      if (problem !== undefined) throw problem;
      const broken = await this.brokenInvariant();
      if (lostAt === undefined) {
        if (unsafe.size > 0) throw new LostLockFailure([...unsafe.values()]);
        return { runs: at + 2, awaits: [...awaits] };
      }
      const place = placeOf(lostAt);
      awaits.add(place);
      if (broken !== undefined && !unsafe.has(place))
        unsafe.set(place, { place, method: lostAt.name, resources, reason: broken.reason });
    }
  }

  /** @throws Error if the call has no await under a lock, fails by itself, or breaks the invariant by itself. */
  private async checkWithoutLoss(): Promise<void> {
    const { awaits, error } = await this.runOnce(Infinity);
    if (error !== undefined) throw new Error('The call fails without a loss.', { cause: error.reason });
    const broken = await this.brokenInvariant();
    if (broken !== undefined) throw new Error('The invariant does not hold without a loss.', { cause: broken.reason });
    if (awaits > 0) return;
    throw new Error(
      'No await of the call was under a lock, so no loss was checked. The code must be compiled to native async ' +
        'functions (ES2017 or later), and use the lock service of nestjs-redis-lock/testing or of `locks`.',
    );
  }

  /** Runs the call, and loses its locks after `lostAfter` awaits under them. */
  private async runOnce(lostAfter: number): Promise<Run> {
    const { setup, files } = this.options;
    await setup?.();
    const run: Run = { awaits: 0, lostAt: undefined, resources: [], problem: undefined, error: undefined };
    const before = new Set(this.heldGrants().map(({ grant }) => grant));
    let resumed: Promise<void> | undefined;
    let isOver = false;
    const stop = watchAwaits({
      // After the loss, the awaits are those of the second holder.
      isWatched: ({ file }) => run.lostAt === undefined && (files === undefined || files.test(file)),
      onAwaited: (site) => {
        if (run.lostAt !== undefined || isOver) return resumed;
        const held = this.heldGrants().filter(({ grant }) => !before.has(grant));
        if (held.length === 0) return undefined;
        run.awaits += 1;
        if (run.awaits <= lostAfter) return undefined;
        run.lostAt = site;
        return (resumed = this.letSecondIn(run, site, held));
      },
    });
    try {
      await this.settled('the call', this.work);
    } catch (reason) {
      if (reason instanceof LateError) throw reason;
      run.error = { reason };
    } finally {
      isOver = true;
      stop();
    }
    await this.untilReleased(before);
    return run;
  }

  /** Loses the locks, and runs the second holder to completion. Does not reject. */
  private async letSecondIn(run: Run, site: CallSite, held: readonly HeldGrant[]): Promise<void> {
    const { second = this.work } = this.options;
    run.resources = held.map(({ grant }) => grant.resource);
    const keys = new Set(held.map(({ grant }) => grant.key));
    let isGranted = false;
    const onGranted = (event: unknown): void => {
      if (keys.has((event as GrantedEvent).key)) isGranted = true;
    };
    let error: unknown;
    lockChannels.granted.subscribe(onGranted);
    try {
      for (const { service, grant } of held) {
        service.engine.lose(grant, `survivesLostLock() ended it after the await at ${placeOf(site)}`);
      }
      await this.context.runInAsyncScope(() => this.settled('the second holder', second));
    } catch (reason) {
      error = reason;
    } finally {
      lockChannels.granted.unsubscribe(onGranted);
    }
    if (error instanceof LateError) run.problem = error;
    else if (!isGranted) {
      const message = `The second holder was not granted ${run.resources.join(', ')}; give one that acquires it.`;
      run.problem = new Error(message, { cause: error });
    }
  }

  /** Returns what the invariant threw, or that it returned false. Undefined if it holds. */
  private async brokenInvariant(): Promise<{ readonly reason: unknown } | undefined> {
    try {
      return (await this.invariant()) === false ? { reason: undefined } : undefined;
    } catch (reason) {
      return { reason };
    }
  }

  private heldGrants(): readonly HeldGrant[] {
    return this.services.flatMap((service) => service.engine.watchdog.grants().map((grant) => ({ service, grant })));
  }

  /** Waits until the locks of a run are released. A response may be sent earlier. */
  private async untilReleased(before: ReadonlySet<Grant>): Promise<void> {
    for (let turns = 0; turns < TURNS_PER_STEP; turns += 1) {
      await nextTurn();
      if (this.heldGrants().every(({ grant }) => before.has(grant))) return;
    }
  }

  /** Calls `fn` and waits for its result. Advances the manual clocks while a caller waits for a lock. */
  private async settled(what: string, fn: () => unknown): Promise<void> {
    const { timeoutMs = DEFAULT_TIMEOUT_MS } = this.options;
    const call = { isOver: false, isLate: false };
    const result = (async () => fn())();
    const end = (): void => void (call.isOver = true);
    result.then(end, end);
    const timer = new SystemClock().schedule(timeoutMs, () => void (call.isLate = true));
    try {
      for (let turns = 1; !call.isOver; turns += 1) {
        if (call.isLate) throw new LateError(`${what} has not settled within ${timeoutMs} ms: see timeoutMs.`);
        await nextTurn();
        const isWaiting = this.services.some((service) => service.local().waiting.length > 0);
        if (turns % TURNS_PER_STEP === 0 && isWaiting) for (const clock of this.clocks) await clock.advance(STEP_MS);
      }
    } finally {
      timer.cancel();
    }
    await result;
  }
}

class LateError extends Error {}

/** Returns the error for a call whose awaits need more runs than allowed. What was found so far counts. */
function tooManyRuns(maxRuns: number, unsafe: readonly UnsafeAwait[]): Error {
  if (unsafe.length > 0) return new LostLockFailure(unsafe);
  return new Error(
    `The call has ${maxRuns - 1} or more awaits under a lock, and may run ${maxRuns} times: see maxRuns.`,
  );
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => atEndOfTick(resolve));
}

/** Returns a place as `src/shop.service.ts:41:20`. */
function placeOf({ file, line, column }: CallSite): string {
  const path = relative(process.cwd(), file);
  return `${path.startsWith('..') ? file : path}:${line}:${column}`;
}
