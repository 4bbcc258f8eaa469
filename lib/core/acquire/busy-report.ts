import { channel, type Channel } from 'node:diagnostics_channel';
import { MOST_IN_FLIGHT } from './admission.js';
import { secondsOf } from '../store/incident-log.js';
import type { Clock } from '../time/clock.js';

/**
 * The event of {@link busyChannel}.
 *
 * @publicApi
 */
export interface BusyEvent {
  /** The name of the module instance, `default` if it has none. */
  readonly instance: string;
  /**
   * `crowded`: requests wait in this process, because too many are without a reply. Repeated ten times a second.
   * `stalled`: this process did not read replies, because its event loop was blocked. `slow`: a reply took long, and
   * this process was not the reason.
   */
  readonly kind: 'crowded' | 'stalled' | 'slow';
  /** How long the event loop was blocked, or how long the reply took, in milliseconds. 0 for `crowded`. */
  readonly durationMs: number;
}

/**
 * Publishes a {@link BusyEvent} when this process, or a slow Redis, delays requests. In both cases, Redis is not down.
 *
 * @publicApi
 */
export const busyChannel: Channel<unknown, unknown> = channel('nestjs-redis-lock:busy');

const LOG_EVERY_MS = 60_000;

/** Reports what delays the requests of a module instance although Redis replies. Logs each kind once a minute. */
export class BusyReport {
  private readonly loggedAt = new Map<BusyEvent['kind'], number>();
  private lastStall = { endedAt: -Infinity, durationMs: 0 };

  constructor(
    private readonly clock: Pick<Clock, 'now'>,
    private readonly instance: string,
    private readonly warn: (message: string) => void,
  ) {}

  /** Called while requests wait to be sent. @param waiting how many. */
  onCrowded(waiting: number): void {
    this.publish('crowded', 0);
    const what = `This process has ${MOST_IN_FLIGHT} lock requests without a reply`;
    this.log('crowded', `${what}, and ${waiting} wait to be sent. Redis may be healthy.`);
  }

  onStalled(durationMs: number): void {
    this.lastStall = { endedAt: this.clock.now(), durationMs };
    this.publish('stalled', durationMs);
    const what = `This process did not read replies of Redis for ${secondsOf(durationMs)}`;
    this.log('stalled', `${what}: its event loop was blocked, or the process was stopped.`);
  }

  /** Called with a reply that took long. @param sentAt when its request was sent, on the local clock. */
  onSlowReply(durationMs: number, sentAt: number): void {
    if (this.stalledMs(sentAt) > 0) return;
    this.publish('slow', durationMs);
    this.log('slow', `Redis replies slowly: a request for a lock took ${Math.round(durationMs)} ms.`);
  }

  /**
   * Returns how long this process did not read replies, in milliseconds. 0 if that ended before the local moment
   * `since`, or did not happen.
   */
  stalledMs(since: number): number {
    const { endedAt, durationMs } = this.lastStall;
    return endedAt >= since ? durationMs : 0;
  }

  private publish(kind: BusyEvent['kind'], durationMs: number): void {
    if (!busyChannel.hasSubscribers) return;
    const event: BusyEvent = { instance: this.instance, kind, durationMs };
    busyChannel.publish(event);
  }

  private log(kind: BusyEvent['kind'], message: string): void {
    const now = this.clock.now();
    if (now - (this.loggedAt.get(kind) ?? -Infinity) < LOG_EVERY_MS) return;
    this.loggedAt.set(kind, now);
    this.warn(message);
  }
}
