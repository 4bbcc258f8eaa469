import type { Clock, Timer } from '../../../lib/core/time/clock.js';
import type { Grant } from '../../../lib/core/lease/grant.js';
import type { Lease } from '../../../lib/core/lease/lease.js';
import type { ExtendReply } from '../../../lib/core/store/lock-store.js';
import type { Line, Request } from './network.js';

/** A lease that was requested for the holds of one owner. */
interface Renewal {
  readonly lease: Lease;
  readonly holds: ModelHold[];
  request: Request | undefined;
}

/**
 * One hold, with the part of `lib/core/lease/watchdog.ts` that the model needs, without promises. Extends the short
 * lease of a handoff at once, by one request for all holds of its owner. Loses the grant at its deadline, or later if
 * the event loop is blocked, which reads the renewal first.
 */
export class ModelHold {
  private timer: Timer | undefined;
  private renewal: Renewal | undefined;

  constructor(
    readonly grant: Grant,
    private readonly line: Line,
    private readonly clock: Clock,
    private readonly onLost: (hold: ModelHold) => void,
  ) {}

  /** @param others the other holds of its process. */
  start(others: readonly ModelHold[]): void {
    this.arm();
    if (!this.grant.isShort) return;
    const { ownership } = this.grant;
    const unsent = others.find((other) => other.grant.ownership === ownership && other.isBeingSent)?.renewal;
    if (unsent === undefined) return this.extend();
    unsent.holds.push(this);
    this.renewal = unsent;
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

  /** Whether its renewal has not reached the server. */
  private get isBeingSent(): boolean {
    return this.renewal?.request !== undefined && this.line.requests.includes(this.renewal.request);
  }

  private extend(): void {
    const { grant, clock, line } = this;
    const sentAt = clock.now();
    const lease = { sentAt, leaseMs: grant.nextLeaseMs(sentAt) };
    const body = { keys: [grant.key], owner: grant.owner, mode: grant.options.mode, leaseMs: lease.leaseMs };
    const renewal: Renewal = { lease, holds: [this], request: undefined };
    const onReply = (reply: ExtendReply): void => {
      for (const hold of renewal.holds) hold.onExtended(reply, renewal);
    };
    this.renewal = renewal;
    renewal.request = { verb: 'extend', body, onReply, sender: renewal };
    line.requests.push(renewal.request);
  }

  private onExtended(reply: ExtendReply, renewal: Renewal): void {
    if (this.renewal !== renewal) return;
    this.renewal = undefined;
    if (this.timer === undefined) return;
    // The reply may be read after the deadline and before the timer, as after a blocked event loop.
    if (reply !== 'renewed' || !this.grant.canBeRenewed(renewal.lease, this.clock.now())) return this.onLost(this);
    this.grant.renewed(renewal.lease);
    this.arm();
  }

  private arm(): void {
    this.timer?.cancel();
    const delayMs = Math.max(0, this.grant.deadline - this.clock.now());
    this.timer = this.clock.schedule(delayMs, () => this.onLost(this));
  }
}
