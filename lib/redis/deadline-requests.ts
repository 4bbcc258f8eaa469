import { afterPromiseJobs, type Clock } from '../core/time/clock.js';
import type { AcquireRequest } from '../core/store/lock-store.js';
import type { RedisConnection } from './redis-connection.js';
import type { ReplyListener } from '../core/store/reply-listener.js';

/** The reply of a script that checks its deadline in server time. */
export interface DeadlineReply {
  readonly status: number;
  /** A fencing token, or the remaining life of the holder's lease in milliseconds. */
  readonly value: number;
  /** Server time in µs. */
  readonly now: number;
}

/** Status of a request that did nothing, because it arrived too late or was cancelled. */
export const PAST_DEADLINE = -1;

/** Stands for the reply to a request that was not sent. */
const NOT_SENT: DeadlineReply = { status: PAST_DEADLINE, value: 0, now: 0 };

/** Runs the script of an acquire request. */
export interface DeadlineScript {
  readonly request: AcquireRequest;
  /** @param deadline in µs of server time. */
  run(deadline: string, listener: ReplyListener<DeadlineReply>): void;
}

/** Sends acquire requests with a deadline in server time, so that a delayed request does nothing. */
export class DeadlineRequests {
  /** @param pending the requests that a release can still cancel. The nodes of a cluster share it. */
  constructor(
    private readonly connection: RedisConnection,
    private readonly clock: Clock,
    private readonly pending: PendingRequests,
  ) {}

  /**
   * Runs the script, at once if server time is known. The reply is `NOT_SENT` for a request that was cancelled or that
   * is past its deadline.
   */
  sendWithDeadline(script: DeadlineScript, listener: ReplyListener<DeadlineReply>): void {
    const deadline = this.connection.microsAt(script.request.expiresAt);
    if (deadline === undefined) this.sendLater(script, listener).catch((error: unknown) => listener.onFailed(error));
    else this.sendNow(script, deadline, listener);
  }

  private async sendLater(script: DeadlineScript, listener: ReplyListener<DeadlineReply>): Promise<void> {
    const { owner, expiresAt } = script.request;
    this.pending.add(owner);
    let wanted = false;
    try {
      await this.connection.synchronise(expiresAt);
    } finally {
      wanted = this.pending.take(owner);
    }
    const deadline = this.connection.microsAt(expiresAt);
    if (!wanted || deadline === undefined) return listener.onReply(NOT_SENT);
    return this.sendNow(script, deadline, listener);
  }

  private sendNow(
    script: DeadlineScript,
    deadline: number,
    listener: ReplyListener<DeadlineReply>,
    isRepeated = false,
  ): void {
    const sentAt = this.clock.now();
    if (sentAt >= script.request.expiresAt) return afterPromiseJobs(() => listener.onReply(NOT_SENT));
    script.run(String(deadline), new TimedRequest(this, script, listener, sentAt, isRepeated));
  }

  /** Called with the reply to a request. @internal */
  onReply({ script, listener, sentAt, isRepeated }: TimedRequest, reply: DeadlineReply): void {
    this.connection.observeTime(reply.now, sentAt);
    if (reply.status !== PAST_DEADLINE || isRepeated) return listener.onReply(reply);
    // The server's clock may have been set forward. The reply has corrected it, so the request is sent once more.
    const corrected = this.connection.microsAt(script.request.expiresAt);
    if (corrected === undefined) return listener.onReply(reply);
    this.sendNow(script, corrected, listener, true);
  }
}

/** A request whose reply shows the server's time. */
class TimedRequest implements ReplyListener<DeadlineReply> {
  constructor(
    private readonly requests: DeadlineRequests,
    readonly script: DeadlineScript,
    readonly listener: ReplyListener<DeadlineReply>,
    readonly sentAt: number,
    readonly isRepeated: boolean,
  ) {}

  onReply(reply: DeadlineReply): void {
    this.requests.onReply(this, reply);
  }

  onFailed(error: unknown): void {
    this.listener.onFailed(error);
  }
}

/** The owners whose acquire request was not sent yet. A release can cancel such a request. */
export class PendingRequests {
  /** Whether each owner's request is still wanted. */
  private readonly wanted = new Map<string, boolean>();

  add(owner: string): void {
    this.wanted.set(owner, true);
  }

  /** Cancels the owner's request. Returns true if it was not sent. */
  cancel(owner: string): boolean {
    if (!this.wanted.has(owner)) return false;
    this.wanted.set(owner, false);
    return true;
  }

  /** Removes the owner's request to send it. Returns false if it was cancelled. */
  take(owner: string): boolean {
    const wanted = this.wanted.get(owner) === true;
    this.wanted.delete(owner);
    return wanted;
  }
}
