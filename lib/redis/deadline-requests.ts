import type { Clock } from '../core/time/clock.js';
import type { AcquireRequest } from '../core/store/lock-store.js';
import type { RedisConnection } from './redis-connection.js';
import { unavailableBecause } from './redis-errors.js';
import { PendingRequests } from './pending-requests.js';

/** What a script answers to an ask that carries its deadline in the server's time. */
export interface DeadlineReply {
  readonly status: number;
  /** A token, or the remaining life of the holder's lease. */
  readonly value: number;
  /** In µs of the server's clock. */
  readonly now: number;
  /** Of several locks, which one the answer is about, counted from 1. */
  readonly nth?: number;
}

/** The ask did nothing: it was too late, or called off. */
export const PAST_DEADLINE = -1;

/** Nothing was heard of the server. */
export const NOT_SENT: DeadlineReply = { status: PAST_DEADLINE, value: 0, now: 0 };

/** Runs an ask with this deadline, in µs of the server's clock. */
type Run = (deadline: string) => Promise<DeadlineReply>;

/** Sends asks with their deadline in the server's time, so that one which is delayed does nothing. */
export class DeadlineRequests {
  /** @param unsent a release behind one of these calls it off. */
  constructor(
    private readonly connection: RedisConnection,
    private readonly clock: Clock,
    private readonly unsent = new PendingRequests(),
  ) {}

  /**
   * Runs the ask: at once where the server's time is known, and nothing has to come `before`, which does not reject. Rejects with
   * `LockUnavailableError`.
   */
  send(request: AcquireRequest, run: Run, before?: Promise<void>): Promise<DeadlineReply> {
    const known = this.connection.microsAt(request.expiresAt) !== undefined;
    return known && before === undefined ? this.sendNow(request, run) : this.sendLater(request, run, before);
  }

  /** Whether the owner's ask was called off by this, before it was sent. */
  cancel(owner: string): boolean {
    return this.unsent.cancel(owner);
  }

  private async sendLater(
    request: AcquireRequest,
    run: Run,
    before: Promise<void> | undefined,
  ): Promise<DeadlineReply> {
    const { owner, expiresAt } = request;
    this.unsent.add(owner);
    let wanted = false;
    try {
      await before;
      if (this.connection.microsAt(expiresAt) === undefined) await this.connection.synchronise(expiresAt);
    } catch (error) {
      throw acquireFailed(error);
    } finally {
      wanted = this.unsent.take(owner);
    }
    return wanted ? this.sendNow(request, run) : NOT_SENT;
  }

  /** Without `async`: every lock goes through here. */
  private sendNow(request: AcquireRequest, run: Run, again = false): Promise<DeadlineReply> {
    const deadline = this.connection.microsAt(request.expiresAt);
    const sentAt = this.clock.now();
    // Without a connection, or without anybody who still waits for the answer, it is not sent at all.
    if (deadline === undefined || sentAt >= request.expiresAt) return Promise.resolve(NOT_SENT);
    return run(String(deadline)).then(
      (reply) => {
        this.connection.heard(reply.now, sentAt);
        // The server's clock may have been set forward since it was last heard: its answer has told, so ask once more.
        return reply.status === PAST_DEADLINE && !again ? this.sendNow(request, run, true) : reply;
      },
      (error: unknown) => {
        throw acquireFailed(error);
      },
    );
  }
}

function acquireFailed(error: unknown): Error {
  return unavailableBecause(error, 'a lock');
}
