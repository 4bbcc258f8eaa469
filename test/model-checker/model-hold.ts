import type { Clock, Timer } from '../../lib/core/time/clock.js';
import type { Grant, Lease } from '../../lib/core/lease/grant.js';
import type { ExtendReply } from '../../lib/core/store/lock-store.js';
import type { Line } from './network.js';

/**
 * One grant as `lib/core/lease/watchdog.ts` watches over it, without promises and without renewals that nobody needs here: a
 * lease shorter than asked for is made up for at once, and what is over is lost.
 */
export class ModelHold {
  private timer: Timer | undefined;
  private renewal: Lease | undefined;

  constructor(
    readonly grant: Grant,
    private readonly line: Line,
    private readonly clock: Clock,
    private readonly lost: (hold: ModelHold) => void,
  ) {
    this.arm();
    if (grant.renewAt <= clock.now()) this.extend();
  }

  get believed(): boolean {
    return this.clock.now() < this.grant.deadline;
  }

  /** Watches over it no longer. */
  end(): void {
    this.timer?.cancel();
    this.timer = undefined;
  }

  disconnected(): void {
    if (this.renewal !== undefined && this.timer !== undefined) this.extend();
  }

  private extend(): void {
    const { grant, clock, line } = this;
    const sentAt = clock.now();
    const renewal = { sentAt, leaseMs: grant.nextLeaseMs(sentAt) };
    const body = { keys: [grant.key], owner: grant.owner, mode: grant.options.mode, leaseMs: renewal.leaseMs };
    this.renewal = renewal;
    line.requests.push({ verb: 'extend', body, answered: (reply) => this.extended(reply, renewal), asker: this });
  }

  private extended(reply: ExtendReply, { sentAt, leaseMs }: Lease): void {
    this.renewal = undefined;
    if (this.timer === undefined) return;
    if (reply !== 'renewed' || !this.believed) return this.lost(this);
    this.grant.renewed(sentAt, leaseMs);
    this.arm();
  }

  private arm(): void {
    this.timer?.cancel();
    const delayMs = Math.max(0, this.grant.deadline - this.clock.now());
    this.timer = this.clock.schedule(delayMs, () => this.lost(this));
  }
}
