import { replyTo } from '../../lib/contract/reply-listener.js';
import type {
  AcquireReply,
  AcquireRequest,
  LockStore,
  ReleaseRequest,
  TransferReply,
  TransferRequest,
} from '../../lib/contract/store.js';

/** The requests of a store that have a listener, as promises. */
export function asked(store: LockStore) {
  return {
    acquire: (request: AcquireRequest): Promise<AcquireReply> =>
      replyTo((listener) => store.acquire(request, listener)),
    release: (request: ReleaseRequest): Promise<boolean> => replyTo((listener) => store.release(request, listener)),
    transfer: (request: TransferRequest): Promise<TransferReply> =>
      replyTo((listener) => {
        if (store.transfer === undefined) throw new Error('the store cannot transfer locks');
        store.transfer(request, listener);
      }),
  };
}
