import type { ExtendReply, ExtendRequest, StoreListener } from '../core/store/lock-store.js';
import { extendFailed } from '../redis/redis-errors.js';

/** Returns `unknown` for each error, and reports it to the listener. */
export function extendReplies(
  requests: readonly ExtendRequest[],
  replies: readonly (ExtendReply | Error)[],
  listener: Pick<StoreListener, 'onExtendFailed'> | undefined,
): readonly ExtendReply[] {
  return replies.map((reply, i) => {
    if (!(reply instanceof Error)) return reply;
    listener?.onExtendFailed?.(requests[i].keys[0], extendFailed(reply));
    return 'unknown';
  });
}
