import type { Held, LockState } from '../../contract/store.js';
import { WIRE_VERSION } from '../../redis/wire.js';
import type { NodeLock } from './node-lock.js';
import { hasReplied, majorityOf, type Outcome } from './poll.js';

/**
 * Returns the reply to an owner that got no majority of the nodes.
 *
 * @param locks what the nodes keep that refused it.
 * @param granted how many nodes gave it the lock, and get it back.
 */
export function heldReplyOf(locks: readonly NodeLock[], nodes: number, granted: number): Held {
  const majority = majorityOf(nodes);
  const own = ofLikeliestHolder(locks);
  // If no holder can have a majority, all of them are about to release the lock.
  const mayBeHeld = own.length + nodes - locks.length - granted >= majority;
  const leases = locks.map(({ remainingMs }) => remainingMs).toSorted((one, other) => one - other);
  const remainingMs = mayBeHeld ? leases[majority - granted - 1] : undefined;
  const { instanceId, wireVersion }: Partial<NodeLock> = own.at(0) ?? {};
  const isKnown = instanceId !== undefined && (own.length >= majority || wireVersion !== undefined);
  const wireVersions = wireVersion === undefined ? undefined : { holder: wireVersion, own: WIRE_VERSION };
  return { status: 'held', queued: false, remainingMs, holder: isKnown ? { instanceId, wireVersions } : undefined };
}

/**
 * Returns the state of a lock from what the nodes keep of it. Null if it is free. Undefined while that is open. The
 * holder has a majority of the nodes, or may have one together with nodes that did not reply.
 */
export function stateOf(outcomes: readonly Outcome<NodeLock | null>[]): LockState | null | undefined {
  const majority = majorityOf(outcomes.length);
  const replies = outcomes.filter(hasReplied);
  const locks = ofLikeliestHolder(replies.filter((lock) => lock !== null));
  const isAnswered = replies.length >= majority;
  if (locks.length + outcomes.length - replies.length < majority) return isAnswered ? null : undefined;
  if (locks.length < majority && (!isAnswered || outcomes.includes(undefined))) return undefined;
  const [{ instanceId, ballot, token: given, wireVersion }] = locks;
  // Its lease lasts as long as it has a majority.
  const leases = locks.map(({ remainingMs }) => remainingMs).toSorted((one, other) => other - one);
  const remainingMs = leases[Math.min(majority, leases.length) - 1];
  const token = given && Math.max(...locks.map((lock) => lock.token ?? 0));
  return { holder: instanceId ?? ballot, remainingMs, token, wireVersion };
}

/** Returns what the nodes keep of the holder that is on most of them. Empty if nobody is on any. */
function ofLikeliestHolder(locks: readonly NodeLock[]): readonly NodeLock[] {
  const byBallot = locks.map(({ ballot }) => locks.filter((lock) => lock.ballot === ballot));
  return byBallot.reduce((most, own) => (own.length > most.length ? own : most), []);
}
