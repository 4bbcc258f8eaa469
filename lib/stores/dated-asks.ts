import type { Clock } from '../core/clock.js';
import type { AskRequest } from '../core/lock-store.js';
import type { RedisConnection } from './redis-connection.js';
import { unavailableBecause } from './redis-errors.js';

/** What a script answers to an ask that carries its deadline in the server's time. */
export interface DatedReply {
  readonly status: number;
  /** A token, or the remaining life of the holder's lease. */
  readonly value: number;
  /** In µs of the server's clock. */
  readonly now: number;
}

/** The ask did nothing: it was too late, or called off. */
export const PAST_DEADLINE = -1;

const NOT_SENT: DatedReply = { status: PAST_DEADLINE, value: 0, now: 0 };

/** Sends asks with their deadline in the server's time, so that one which is delayed does nothing. */
export class DatedAsks {
  /** Owners whose ask was not sent yet: a release behind one calls it off. */
  private readonly unsent = new Set<string>();

  constructor(
    private readonly connection: RedisConnection,
    private readonly clock: Clock,
  ) {}

  /**
   * Runs the ask with its deadline: at once where the server's time is known, and nothing has to come `before`, which does not
   * reject. Throws `LockUnavailableError`.
   */
  async send(
    request: AskRequest,
    run: (deadline: string) => Promise<DatedReply>,
    before?: Promise<void>,
  ): Promise<DatedReply> {
    const { owner, expiresAt } = request;
    try {
      if (before !== undefined && !(await this.wantedAfter(before, owner))) return NOT_SENT;
      const known = this.connection.microsAt(expiresAt) !== undefined;
      if (!known && !(await this.wantedAfter(this.connection.synchronise(expiresAt), owner))) return NOT_SENT;
      const reply = await this.sendOnce(request, run);
      // The server's clock may have been set forward since it was last heard: its answer has told, so ask once more.
      return reply.status === PAST_DEADLINE ? await this.sendOnce(request, run) : reply;
    } catch (error) {
      throw unavailableBecause(error, 'a lock');
    }
  }

  /** Whether the owner's ask was called off by this, before it was sent. */
  callOff(owner: string): boolean {
    return this.unsent.delete(owner);
  }

  /** Waits for what comes before the ask; false if the ask was called off meanwhile. */
  private async wantedAfter(before: Promise<void>, owner: string): Promise<boolean> {
    this.unsent.add(owner);
    let wanted = false;
    try {
      await before;
    } finally {
      wanted = this.unsent.delete(owner);
    }
    return wanted;
  }

  private async sendOnce({ expiresAt }: AskRequest, run: (deadline: string) => Promise<DatedReply>) {
    const deadline = this.connection.microsAt(expiresAt);
    const sentAt = this.clock.now();
    // Without a connection, or without anybody who still waits for the answer, it is not sent at all.
    if (deadline === undefined || sentAt >= expiresAt) return NOT_SENT;
    const reply = await run(String(deadline));
    this.connection.heard(reply.now, sentAt);
    return reply;
  }
}
