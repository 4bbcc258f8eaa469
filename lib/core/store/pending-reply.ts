import { afterPromiseJobs } from '../time/clock.js';

/**
 * A reply that is still expected. It can be awaited. {@link whenReplied} makes no promise for it, because every lock
 * has two replies, and each would cost two promises.
 *
 * It has one outcome and one listener.
 */
export class PendingReply<Reply> implements PromiseLike<Reply> {
  private onReply: ((reply: Reply) => void) | undefined = undefined;
  private onError: ((error: unknown) => void) | undefined = undefined;
  private promise: Promise<Reply> | undefined = undefined;
  /** Reports the outcome. Set if the outcome was known before anyone listened. */
  private report: (() => void) | undefined = undefined;

  // oxlint-disable-next-line unicorn/no-thenable -- A store that wraps another one awaits its replies.
  then<Result = Reply, Other = never>(
    onReply?: ((reply: Reply) => Result | PromiseLike<Result>) | null,
    onError?: ((error: unknown) => Other | PromiseLike<Other>) | null,
  ): Promise<Result | Other> {
    this.promise ??= new Promise<Reply>((resolve, reject) => this.listen(resolve, reject));
    return this.promise.then(onReply, onError);
  }

  /** Calls one of the two with the outcome, never before this method has returned. */
  listen(onReply: (reply: Reply) => void, onError: (error: unknown) => void): void {
    this.onReply = onReply;
    this.onError = onError;
    if (this.report !== undefined) afterPromiseJobs(this.report);
  }

  /** Calls the listener immediately. So call this only where no code of the listener is running. */
  resolve(reply: Reply): void {
    const { onReply } = this;
    if (onReply === undefined) this.report = () => this.resolve(reply);
    else {
      try {
        onReply(reply);
      } catch (error) {
        throwLater(error);
      }
    }
  }

  /** See {@link resolve}. */
  reject(error: unknown): void {
    const { onError } = this;
    if (onError === undefined) this.report = () => this.reject(error);
    else {
      try {
        onError(error);
      } catch (cause) {
        throwLater(cause);
      }
    }
  }
}

/** Calls one of the two with the outcome of a request, in another tick or in a promise job. */
export function whenReplied<Reply>(
  reply: PromiseLike<Reply>,
  onReply: (reply: Reply) => void,
  onError: (error: unknown) => void,
): void {
  if (reply instanceof PendingReply) (reply as PendingReply<Reply>).listen(onReply, onError);
  else void reply.then(onReply, onError);
}

/** Throws a listener's error later, so that other listeners of the same reply get their outcomes. */
function throwLater(error: unknown): void {
  afterPromiseJobs(() => {
    throw error;
  });
}
