import { afterPromiseJobs } from '../time/clock.js';

/**
 * Receives the reply to a request or its error: once, and never before the sender has returned. The layers that a
 * request passes are such objects, because closures keep several times as much memory until the reply.
 */
export interface Outcome<Reply> {
  onReply(reply: Reply): void;
  onFailed(error: unknown): void;
}

/**
 * A reply that is still expected. It can be awaited. {@link whenReplied} makes no promise for it, because every lock
 * has two replies, and each would cost two promises.
 *
 * It has one {@link Outcome}.
 */
export class PendingReply<Reply> implements PromiseLike<Reply> {
  private outcome: Outcome<Reply> | undefined = undefined;
  private promise: Promise<Reply> | undefined = undefined;
  /** Reports the reply or the error. Set if one was known before anyone listened. */
  private report: (() => void) | undefined = undefined;

  // oxlint-disable-next-line unicorn/no-thenable -- A store that wraps another one awaits its replies.
  then<Result = Reply, Other = never>(
    onReply?: ((reply: Reply) => Result | PromiseLike<Result>) | null,
    onError?: ((error: unknown) => Other | PromiseLike<Other>) | null,
  ): Promise<Result | Other> {
    this.promise ??= new Promise<Reply>((resolve, reject) => this.listen({ onReply: resolve, onFailed: reject }));
    return this.promise.then(onReply, onError);
  }

  /** Calls the outcome, never before this method has returned. */
  listen(outcome: Outcome<Reply>): void {
    this.outcome = outcome;
    if (this.report !== undefined) afterPromiseJobs(this.report);
  }

  /** Calls the outcome immediately. So call this only where no code of the listener is running. */
  resolve(reply: Reply): void {
    const { outcome } = this;
    if (outcome === undefined) this.report = () => this.resolve(reply);
    else {
      try {
        outcome.onReply(reply);
      } catch (error) {
        throwLater(error);
      }
    }
  }

  /** See {@link resolve}. */
  reject(error: unknown): void {
    const { outcome } = this;
    if (outcome === undefined) this.report = () => this.reject(error);
    else {
      try {
        outcome.onFailed(error);
      } catch (cause) {
        throwLater(cause);
      }
    }
  }
}

/** Calls the outcome of a request, in another tick or in a promise job. */
export function whenReplied<Reply>(pending: PromiseLike<Reply>, outcome: Outcome<Reply>): void {
  if (pending instanceof PendingReply) (pending as PendingReply<Reply>).listen(outcome);
  else
    void pending.then(
      (reply) => outcome.onReply(reply),
      (error: unknown) => outcome.onFailed(error),
    );
}

/** Throws a listener's error later, so that other listeners of the same reply get their outcomes. */
function throwLater(error: unknown): void {
  afterPromiseJobs(() => {
    throw error;
  });
}
