import type { Clock, Timer } from '../../lib/core/time/clock.js';
import type { Grant, Lease } from '../../lib/core/lease/grant.js';
import type { ExtendReply } from '../../lib/core/store/lock-store.js';
import type { Line } from './network.js';

/**
 * One hold, with the part of `lib/core/lease/watchdog.ts` that the model needs, without promises. Extends the short
 * lease of a handoff at once. Loses the grant at its deadline, or later if the event loop is blocked, which reads the
 * renewal first.
 */
export class ModelHold {
  private timer: Timer | undefined;
  private renewal: Lease | undefined;

  constructor(
    readonly grant: Grant,
    private readonly line: Line,
    private readonly clock: Clock,
    private readonly onLost: (hold: ModelHold) => void,
  ) {
    this.arm();
    if (grant.renewAt <= clock.now()) this.extend();
  }

  get isBeforeDeadline(): boolean {
    return this.clock.now() < this.grant.deadline;
  }

  /** Cancels the timer. */
  end(): void {
    this.timer?.cancel();
    this.timer = undefined;
  }

  onDisconnected(): void {
    if (this.renewal !== undefined && this.timer !== undefined) this.extend();
  }

  private extend(): void {
    const { grant, clock, line } = this;
    const sentAt = clock.now();
    const renewal = { sentAt, leaseMs: grant.nextLeaseMs(sentAt) };
    const body = { keys: [grant.key], owner: grant.owner, mode: grant.options.mode, leaseMs: renewal.leaseMs };
    this.renewal = renewal;
    line.requests.push({ verb: 'extend', body, onReply: (reply) => this.onExtended(reply, renewal), sender: this });
  }

  private onExtended(reply: ExtendReply, renewal: Lease): void {
    this.renewal = undefined;
    if (this.timer === undefined) return;
    // The reply may be read after the deadline and before the timer, as after a blocked event loop.
    if (reply !== 'renewed' || !this.grant.canBeRenewed(renewal, this.clock.now())) return this.onLost(this);
    this.grant.renewed(renewal);
    this.arm();
  }

  private arm(): void {
    this.timer?.cancel();
    const delayMs = Math.max(0, this.grant.deadline - this.clock.now());
    this.timer = this.clock.schedule(delayMs, () => this.onLost(this));
  }
}
