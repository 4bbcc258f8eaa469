import { channel, type Channel, type TracingChannel, tracingChannel } from 'node:diagnostics_channel';
import { type CallDetails, describeCall, type LockCall, type Target } from './call.js';

/**
 * How a call or a hold ended. A request ends as `granted`, as `nested` (another request of its lock scope got the lock,
 * and the caller also has it), as `done` (with `onceMs`, an earlier run has done the work), as `aborted` (by the
 * caller's signal), as `busy` (others hold the lock, and the call does not wait), or as the code of its error says:
 * `timeout` for `LOCK_TIMEOUT` after a wait. A hold ends as `released` or `lost`.
 *
 * @publicApi
 */
export type LockOutcome =
  | 'granted'
  | 'nested'
  | 'done'
  | 'aborted'
  | 'busy'
  | 'timeout'
  | 'unavailable'
  | 'replication'
  | 'reentry'
  | 'closed'
  | 'config'
  | 'key'
  | 'stale'
  | 'failed'
  | 'released'
  | 'lost';

/**
 * The context object of `nestjs-redis-lock:acquire` and `nestjs-redis-lock:hold`: one object for a call and its hold. A
 * call for several locks has one for each lock. Only this library changes it.
 *
 * @publicApi
 */
export interface LockCallContext extends LockCall {
  /** The name of the module instance, `default` if it has none. */
  readonly instance: string;
  /** The maximum time that the call waits, in milliseconds. 0 if it does not wait. */
  readonly waitMs: number;
  /** The fencing token, once the lock is granted. Undefined if the store gives none. */
  fencingToken: number | undefined;
  /** How the request ended, and then how the hold ended. */
  outcome: LockOutcome | undefined;
  /** The time from the call to the grant or the refusal, in milliseconds. */
  waitedMs: number | undefined;
  /** The time from the grant to the end of the hold, in milliseconds. */
  heldMs: number | undefined;
  /** What the caller's promise rejects with, or the `LockLostError` of a lost hold. */
  error: unknown;
}

/**
 * The message of {@link workChannel}.
 *
 * @publicApi
 */
export interface WorkMessage {
  /** The holds that the work runs under. */
  readonly calls: readonly LockCallContext[];
  /** Calls the work, and returns what it returns. A subscriber may replace it with a function that calls it once. */
  run: () => unknown;
}

/**
 * The `TracingChannel`s of calls and holds, with a {@link LockCallContext}.
 *
 * - `acquire`: `start` and then `end` at the call. `asyncStart` and then `asyncEnd` at the grant or the refusal.
 *   `error` comes before these two if the caller's promise rejects.
 * - `hold`: `start` and then `end` at the grant, after the events of `acquire`. `asyncStart` and then `asyncEnd` at the
 *   release or the loss. `error` comes before these two if the lock was lost.
 *
 * A call that makes no request publishes nothing: a nested hold, an option that is not allowed, a signal that has
 * already aborted, and a call after the shutdown has begun. A hold publishes its end only if it has published its
 * start. Subscribers run synchronously.
 *
 * @publicApi
 */
export const lockTracing: {
  readonly acquire: TracingChannel<unknown, LockCallContext>;
  readonly hold: TracingChannel<unknown, LockCallContext>;
} = {
  acquire: tracingChannel<unknown, LockCallContext>('nestjs-redis-lock:acquire'),
  hold: tracingChannel<unknown, LockCallContext>('nestjs-redis-lock:hold'),
};

/**
 * Publishes a {@link WorkMessage} before `using`, a `@Locked` method or a stream begins its work under a new hold. The
 * work runs in the stores that are bound to this channel with `bindStore`. Nested holds publish nothing.
 *
 * @publicApi
 */
export const workChannel: Channel<unknown, unknown> = channel('nestjs-redis-lock:work');

const { acquire, hold } = lockTracing;

// `TracingChannel.hasSubscribers` is missing before Node 20.13.
const CHANNELS = [acquire, hold].flatMap((of): readonly Pick<Channel, 'hasSubscribers'>[] => {
  return [of.start, of.end, of.asyncStart, of.asyncEnd, of.error];
});

/** The contexts of traced calls: by target until the grant, then by the caller's hold. */
const contexts = new WeakMap<object, LockCallContext>();

/** Returns whether anyone subscribes to calls, holds or work. */
export function isTraced(): boolean {
  // Every acquire runs this, so it makes no iterator and no closure.
  for (let i = 0; i < CHANNELS.length; i += 1) if (CHANNELS[i].hasSubscribers) return true;
  return workChannel.hasSubscribers;
}

/** Publishes the start of a call. */
export function traceRequest(target: Target, options: CallDetails, instance: string): void {
  const context = contextOf(target, options, instance);
  contexts.set(target, context);
  acquire.start.publish(context);
  acquire.end.publish(context);
}

/**
 * Publishes the grant of a call, and the start of its hold. Returns the context for its end.
 *
 * @param lock the caller's hold.
 */
export function traceGrant(
  target: Target,
  lock: object,
  options: CallDetails,
  { instance, ...granted }: { readonly instance: string } & Pick<LockCallContext, 'waitedMs' | 'fencingToken'>,
): LockCallContext {
  const known = contexts.get(target);
  const context = known ?? contextOf(target, options, instance);
  contexts.delete(target);
  contexts.set(lock, Object.assign(context, granted, { outcome: 'granted' }));
  // A subscriber that came after the start gets no end.
  if (known !== undefined) publishEnd(acquire, context);
  hold.start.publish(context);
  hold.end.publish(context);
  return context;
}

/** Publishes the refusal of a call. */
export function traceRefusal(
  target: Target,
  refused: Required<Pick<LockCallContext, 'waitedMs' | 'outcome' | 'error'>>,
): void {
  const context = contexts.get(target);
  if (context === undefined) return;
  contexts.delete(target);
  publishEnd(acquire, Object.assign(context, refused));
}

/** Publishes the end of a hold. */
export function traceEnd(
  context: LockCallContext,
  ended: Required<Pick<LockCallContext, 'heldMs' | 'outcome' | 'error'>>,
): void {
  publishEnd(hold, Object.assign(context, ended));
}

/**
 * Runs work under holds, wrapped by the subscribers of {@link workChannel}. Returns what the work returns. Call it only
 * if there are subscribers, so that work without subscribers makes no closure.
 */
export function runWork<T>(locks: readonly object[], work: () => T): T {
  const calls = locks.flatMap((lock) => contexts.get(lock) ?? []);
  if (calls.length === 0) return work();
  const message: WorkMessage = { calls, run: work };
  return workChannel.runStores(message, () => message.run() as T);
}

function publishEnd(channels: TracingChannel<unknown, LockCallContext>, context: LockCallContext): void {
  if (context.error !== undefined) channels.error.publish(context);
  channels.asyncStart.publish(context);
  channels.asyncEnd.publish(context);
}

function contextOf(
  target: Target,
  options: CallDetails & { readonly waitMs?: number },
  instance: string,
): LockCallContext {
  return {
    ...describeCall(target, options),
    instance,
    waitMs: options.waitMs ?? Infinity,
    fencingToken: undefined,
    outcome: undefined,
    waitedMs: undefined,
    heldMs: undefined,
    error: undefined,
  };
}
