import { afterPromiseJobs } from '../time/clock.js';

/**
 * Receives the reply to a request or its error, never before the sender has returned. If `onReply` throws, some senders
 * also call `onFailed` with that error. The layers that a request passes are such objects, because closures keep
 * several times as much memory until the reply.
 */
export interface ReplyListener<Reply> {
  onReply(reply: Reply): void;
  onFailed(error: unknown): void;
}

/**
 * A reply that is still expected. It can be awaited. {@link whenReplied} makes no promise for it, because every lock
 * has two replies, and each would cost two promises.
 *
 * It has one outcome and one listener.
 */
export class PendingReply<Reply> implements PromiseLike<Reply> {
  private listener: ReplyListener<Reply> | undefined = undefined;
  private promise: Promise<Reply> | undefined = undefined;
  /** Reports the outcome. Set if the outcome was known before anyone listened. */
  private report: (() => void) | undefined = undefined;

  // oxlint-disable-next-line unicorn/no-thenable -- `LockStore` promises a PromiseLike. ReplicatedStore awaits it.
  then<Result = Reply, Other = never>(
    onReply?: ((reply: Reply) => Result | PromiseLike<Result>) | null,
    onError?: ((error: unknown) => Other | PromiseLike<Other>) | null,
  ): Promise<Result | Other> {
    this.promise ??= new Promise<Reply>((resolve, reject) => this.listen({ onReply: resolve, onFailed: reject }));
    return this.promise.then(onReply, onError);
  }

  /** Calls the listener with the outcome, never before this method has returned. */
  listen(listener: ReplyListener<Reply>): void {
    this.listener = listener;
    if (this.report !== undefined) afterPromiseJobs(this.report);
  }

  /** Calls the listener immediately. So call this only where no code of the listener is running. */
  resolve(reply: Reply): void {
    const { listener } = this;
    if (listener === undefined) this.report = () => this.resolve(reply);
    else {
      try {
        listener.onReply(reply);
      } catch (error) {
        throwLater(error);
      }
    }
  }

  /** See {@link resolve}. */
  reject(error: unknown): void {
    const { listener } = this;
    if (listener === undefined) this.report = () => this.reject(error);
    else {
      try {
        listener.onFailed(error);
      } catch (cause) {
        throwLater(cause);
      }
    }
  }
}

/** Calls the listener with the outcome of a request, in another tick or in a promise job. */
export function whenReplied<Reply>(pending: PromiseLike<Reply>, listener: ReplyListener<Reply>): void {
  if (pending instanceof PendingReply) (pending as PendingReply<Reply>).listen(listener);
  else
    void pending.then(
      (reply) => listener.onReply(reply),
      (error: unknown) => listener.onFailed(error),
    );
}

/** Throws a listener's error later, so that other listeners of the same reply get their outcomes. */
function throwLater(error: unknown): void {
  afterPromiseJobs(() => {
    throw error;
  });
}
