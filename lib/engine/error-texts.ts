import {
  LockConfigError,
  type LockError,
  LockLostError,
  LockReentryError,
  LockReplicationError,
  LockTimeoutError,
  type LockUnavailableDetails,
  LockUnavailableError,
  messageOf,
} from '../common/errors.js';
import { kindOf } from '../contract/lock-mode.js';
import { nameOfWork, secondsOf } from '../common/format-value.js';
import { identityOf } from '../contract/instance-id.js';
import type { HolderHint, LockMode, LockStore, StoreCapabilities } from '../contract/store.js';
import type { Lock } from './lock.js';
import type { Outage } from './store-health.js';

/** One holder of a lock. */
export interface CurrentHolder extends HolderHint {
  /** Whether it is this module instance. */
  readonly isOwn: boolean;
}

/** The store's last reply about a key. */
export type LastReply =
  | { readonly kind: 'none' }
  /**
   * Others hold the lock, which expires at `until` unless they renew it. `until` and `holder` are undefined if they are
   * not known.
   */
  | {
      readonly kind: 'held';
      readonly until: number | undefined;
      readonly holder?: CurrentHolder | undefined;
      /** How many entries of the store's queue are ahead of this instance. Undefined if it is not known. */
      readonly ahead?: number | undefined;
      /** Whether nobody holds it, and it stays closed because its work is done. */
      readonly isDone?: boolean | undefined;
    }
  /** Others hold the lock with a different number of permits. */
  | { readonly kind: 'permits-mismatch'; readonly permits: number }
  /** The request has failed, and so has every earlier request since `since`, on the local clock. */
  | { readonly kind: 'failed'; readonly error: LockUnavailableError; readonly since: number };

/** Why a caller gets no lock. */
export type KnownReply = Exclude<LastReply, { readonly kind: 'none' }>;

type HeldReply = Extract<LastReply, { readonly kind: 'held' }>;

/** What an error says about the callers of this module instance that wait for the lock. */
export interface WaitingLine {
  readonly waitingHere: number;
  /** The limit that the call has exceeded. Undefined if it has exceeded none. */
  readonly maxWaiting?: number | undefined;
}

/** A caller that gets no lock. */
export interface RejectedCall {
  readonly resource: string;
  readonly key: string;
  readonly mode: LockMode;
  readonly waitMs: number;
  readonly enteredAt: number;
  readonly now: number;
  /** Where the key's server is. Undefined if that is not known. */
  readonly place: string | undefined;
  readonly line: WaitingLine;
  /** Returns the `@Locked` method that holds the key in this module instance. Undefined if none is known. */
  ownMethod(this: void): string | undefined;
}

/** Returns the error for a caller that gets no lock. The store's last reply decides between busy and unavailable. */
export function acquireError(lastReply: KnownReply, call: RejectedCall): LockError {
  const { resource, now, enteredAt, place } = call;
  const elapsedMs = now - enteredAt;
  if (lastReply.kind === 'permits-mismatch') return permitsMismatch(lastReply.permits, call);
  if (lastReply.kind === 'failed') return errorOfCall(lastReply.error, resource, elapsedMs, place);
  return timeout(lastReply, call, elapsedMs);
}

/** Returns the error of a request, for one of the callers that share the request. */
function errorOfCall(
  error: LockUnavailableError,
  resource: string,
  elapsedMs: number,
  place: string | undefined,
): LockUnavailableError {
  const { message, permanent, refusal, cause } = error;
  const Kind = error instanceof LockReplicationError ? LockReplicationError : LockUnavailableError;
  return new Kind(withPlace(message, place), { resource, elapsedMs, permanent, refusal, cause });
}

function permitsMismatch(permits: number, { resource, mode }: RejectedCall): LockConfigError {
  const message = `${resource} is held with one of ${permits} permits, and one of ${mode} was requested`;
  return new LockConfigError(`${message}; expected the same number for all callers.`, { resource });
}

function timeout({ until, holder, ahead }: HeldReply, call: RejectedCall, elapsedMs: number): LockTimeoutError {
  const { resource, key, waitMs, now, line } = call;
  const isQueueFull = line.maxWaiting !== undefined;
  // A caller with a `waitMs` of 0 does not wait, but its request takes time.
  const waited = isQueueFull
    ? 'refused at once, because too many callers wait for it'
    : `refused after ${Math.round(elapsedMs)} ms (waitMs: ${waitMs})`;
  const remainingMs = until === undefined ? undefined : Math.max(0, until - now);
  const hint = remainingMs === Infinity ? ` Its key ${key} has no expiry: this library did not write it.` : '';
  const publicMessage = `${resource} is locked by others: ${waited}.${hint}`;
  const lineHint = describeLine(line, ahead);
  const waiting = { waitingHere: line.waitingHere, queuedAhead: ahead, isQueueFull };
  const details = { resource, elapsedMs, remainingMs, publicMessage, ...waiting };
  if (holder === undefined) return new LockTimeoutError(`${publicMessage}${lineHint}`, details);
  const { instanceId, since, count, isOwn, wireVersions, method, label } = holder;
  // A moment in the future means that the server's clock was set back.
  const heldForMs = since === undefined || since > now ? undefined : now - since;
  const identity = identityOf(instanceId);
  const ownMethod = isOwn ? call.ownMethod() : undefined;
  const here = ownMethod === undefined ? 'this instance' : `${ownMethod} of this instance`;
  const who = isOwn ? here : identity && identity + nameOfWork({ method, label });
  if (wireVersions !== undefined) {
    const { holder: theirs, own } = wireVersions;
    const used = `${resource} is used by ${identity ?? 'an instance'} with wire version ${theirs}`;
    const message = `${used}, and this instance has wire version ${own}: ${waited}.`;
    const advice = 'See "Versions" on the page "In production" (npm docs nestjs-redis-lock).';
    return new LockTimeoutError(`${message} ${advice}`, { ...details, isOwn, heldBy: identity });
  }
  const message =
    who === undefined
      ? publicMessage
      : `${resource} is locked, ${describeHolder(who, count, heldForMs)}: ${waited}.${hint}`;
  const ofHolder = { isOwn, heldForMs, holderCount: count, heldBy: identity };
  return new LockTimeoutError(`${message}${lineHint}`, { ...details, ...ofHolder });
}

/** Returns a sentence about the waiting callers, with a space before it. Empty if nobody waits. */
function describeLine({ waitingHere, maxWaiting }: WaitingLine, ahead = 0): string {
  if (waitingHere === 0 && ahead === 0) return '';
  const limit = maxWaiting === undefined ? '' : ` (maxWaiting: ${maxWaiting})`;
  const here = `${waitingHere} ${waitingHere === 1 ? 'caller' : 'callers'} of this instance`;
  const others = ahead === 0 ? '' : `, behind ${ahead} ${ahead === 1 ? 'other' : 'others'} in the queue`;
  const verb = (waitingHere || ahead) === 1 ? 'waits' : 'wait';
  return waitingHere === 0 ? ` ${ahead} ${verb} in the queue.` : ` ${here}${limit} ${verb}${others}.`;
}

function describeHolder(who: string, count = 1, heldForMs?: number): string {
  const others = count > 1 ? `held by ${count}, one of them ${who}` : `held by ${who}`;
  return heldForMs === undefined ? others : `${others} for ${secondsOf(heldForMs)}`;
}

/** Returns the error for a request without a reply. */
export function unavailable(
  resource: string,
  why: string,
  details: Pick<LockUnavailableDetails, 'cause' | 'elapsedMs'> = {},
): LockUnavailableError {
  const because = details.cause === undefined ? why : `${why} (${messageOf(details.cause)})`;
  return new LockUnavailableError(`${resource} could not be locked: ${because}.`, { resource, ...details });
}

/** Returns the error for a caller whose request is not sent, or is given up, because of a known outage. */
export function outageError(
  resource: string,
  { lastsMs, why, error, place }: Outage,
  elapsedMs: number,
): LockUnavailableError {
  const message = `${resource} could not be locked: Redis has been unreachable for ${secondsOf(lastsMs)} (${why}).`;
  return new LockUnavailableError(withPlace(message, place), { resource, elapsedMs, cause: error });
}

/** Returns the message of an error, followed by where Redis is. */
export function withPlace(message: string, place: string | undefined): string {
  return place === undefined || message.includes(place) ? message : `${message} Redis is at ${place}.`;
}

/**
 * Returns the error for a caller that holds a lock in a mode that does not cover the requested one. Two such callers
 * would deadlock.
 */
export function upgradeError(resource: string, held: LockMode, wanted: LockMode): LockReentryError {
  const modes = `${format(held)}, which does not cover ${format(wanted)}`;
  const advice = 'release it first, or acquire the other mode from the start';
  return new LockReentryError(`${resource} is already held by the caller, ${modes}; ${advice}.`, {
    resource,
  });
}

/** What a call wants of a store. */
interface Wanted {
  readonly mode: LockMode;
  /** Default: the call is not one that is done. */
  readonly onceMs?: number | undefined;
  /** Default: a lease that every store allows. */
  readonly leaseMs?: number;
}

/** Returns what a call wants and a store cannot do, and what is allowed. Undefined if it can do all of it. */
export function describeUnsupported(
  { name, modes, once, shortestLease }: StoreCapabilities,
  { mode, onceMs, leaseMs = Infinity }: Wanted,
): string | undefined {
  if (onceMs !== undefined && once !== true)
    return `onceMs: ${name} cannot keep work that is done apart from a lock that is held, as token() and memory() can`;
  if (!modes.includes(kindOf(mode))) {
    const [option, wanted] = typeof mode === 'number' ? ['permits', 'permits'] : ['mode', mode];
    return `${option}: ${name} does not support ${wanted}; use ${modes.join(' or ')}`;
  }
  if (shortestLease === undefined || leaseMs >= shortestLease.ms) return undefined;
  const { ms, reason } = shortestLease;
  return `the lease is ${leaseMs} ms; ttlMs and maxHoldMs must allow ${ms} or more: ${reason}`;
}

/** Returns why a store cannot end a hold by force, and what is allowed. Undefined if it can. */
export function describeUnsupportedForce(
  { capabilities, forceRelease }: LockStore,
  ifToken: number | undefined,
): string | undefined {
  const { name, fencing } = capabilities;
  if (forceRelease === undefined)
    return `forceRelease(): ${name} cannot end the hold of another owner; use a store that can, such as token().`;
  if (ifToken === undefined || fencing) return undefined;
  return `forceRelease(): ${name} gives no fencing tokens; call it without ifToken.`;
}

/** Returns why a store cannot give locks to tickets, and what is allowed. Undefined if it can. */
export function describeUnsupportedTransfer({ capabilities, transfer }: LockStore): string | undefined {
  if (transfer !== undefined) return undefined;
  return `${capabilities.name} cannot keep a lock for a ticket; use token() or memory()`;
}

/** Returns why a lock cannot be detached, and what to do. Undefined if it can. */
export function describeUndetachable(store: LockStore, lock: Lock): string | undefined {
  const { mode, options, isOfSeveral, root, holdCount } = lock;
  if (mode !== 'exclusive') return `the lock is held ${format(mode)}; only an exclusive lock can be detached`;
  if (isOfSeveral) return 'the lock was acquired together with others; acquire it alone';
  if (options.onceMs !== undefined || lock.isDone) return 'the lock is of a call with onceMs, which ends with its work';
  if (options.minHoldMs > 0) return `the lock has minHoldMs: ${options.minHoldMs}; acquire it without minHoldMs`;
  if (root !== lock || holdCount > 1)
    return (
      'the lock is also held by a nested hold, a lock scope, a handler or a leader; ' +
      'detach a lock that acquire() or using() returned outside of them'
    );
  return describeUnsupportedTransfer(store);
}

/** Returns the error for a ticket that no longer has the lock. */
export function ticketIsOver(resource: string, status: 'free' | 'others'): LockLostError {
  const now = status === 'free' ? 'Nobody holds the lock now' : 'Others hold the lock now';
  const why = 'it has expired, was released or resumed, or is the ticket of another lock';
  const message = `The ticket of ${resource} is over: ${why}. ${now}.`;
  return new LockLostError(message, { resource, byClient: true });
}

function format(mode: LockMode): string {
  return typeof mode === 'number' ? `with one of ${mode} permits` : mode;
}
