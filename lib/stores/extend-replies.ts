import { extendFailed } from '../redis/redis-errors.js';
import { type ExtendReply, type ExtendRequest, type StoreListener, UnansweredError } from '../contract/store.js';

/** Returns `unknown` for each error, and reports it to the listener. */
export function extendReplies(
  requests: readonly ExtendRequest[],
  replies: readonly (ExtendReply | Error)[],
  listener: Pick<StoreListener, 'onExtendFailed'> | undefined,
): readonly ExtendReply[] {
  return replies.map((reply, i) => {
    if (!(reply instanceof Error)) return reply;
    // Silence and ended connections are reported for the whole server.
    if (!(reply instanceof UnansweredError)) listener?.onExtendFailed(requests[i].key, extendFailed(reply));
    return 'unknown';
  });
}
