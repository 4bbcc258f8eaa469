import type { AcquireReply, AcquireRequest } from '../../core/store/lock-store.js';
import { type DeadlineReply, PAST_DEADLINE } from '../../redis/deadline-requests.js';

const GRANTED = 1;
const GRANTED_BEFORE = 2;
const QUEUED = 3;
const OTHER_PERMITS = -2;

/** In the place of a remaining life. */
const ENDLESS = -1;
const UNKNOWN = -2;

/** What the scripts mean by their answer to an ask. */
export function decodeAcquireReply(
  { keys, mode, tokens }: AcquireRequest,
  { status, value, nth }: DeadlineReply,
): AcquireReply {
  if (status === PAST_DEADLINE) return { status: 'expired' };
  // Whoever shares the lock passes it on to nobody, and nor does who has several; of one that was granted before, nobody remembers
  // how many tokens were set aside with it.
  const passes = mode === 'exclusive' && keys.length === 1 && status !== GRANTED_BEFORE;
  if (status === GRANTED || status === GRANTED_BEFORE)
    return { status: 'granted', token: value, tokens: passes ? tokens : 1 };
  const place = nth === undefined ? undefined : { key: keys[nth - 1] };
  if (status === OTHER_PERMITS) return { status: 'permits-mismatch', permits: value, ...place };
  return { status: 'held', queued: status === QUEUED, remainingMs: remaining(value), ...place };
}

function remaining(value: number): number | undefined {
  if (value === UNKNOWN) return undefined;
  return value === ENDLESS ? Infinity : value;
}
