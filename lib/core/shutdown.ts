import type { Acquirer } from './acquire/acquirer.js';
import type { Lines } from './acquire/lines.js';
import { latestCall } from './call.js';
import type { LeaseManager } from './lease/lease-manager.js';
import { atEndOfTick, type Clock, type Timer } from './time/clock.js';

/**
 * The steps of a shutdown: `begin` refuses background work, `settle` waits for the calls that were made before it, and
 * `drain` refuses everything but what runs in a hold.
 */
export class Shutdown {
  private graceTimer: Timer | undefined;
  private graceEndsAt: number | undefined;
  private settled: Promise<void> | undefined;
  private endSettling: (() => void) | undefined;

  constructor(
    private readonly acquirer: Pick<Acquirer, 'phase' | 'onRefused'>,
    private readonly lines: Pick<Lines, 'waiting' | 'refuseBackground' | 'refuseOutsiders'>,
    private readonly leases: LeaseManager,
    private readonly clock: Clock,
  ) {}

  /** Refuses background work, also what waits already. */
  begin(): void {
    this.acquirer.phase = 'stopping';
    this.lines.refuseBackground();
  }

  /**
   * Waits until the calls so far have ended, and their holds.
   *
   * @param onGraceOver called after `graceMs` milliseconds, unless {@link drain} was called before.
   */
  settle(graceMs: number, onGraceOver: () => void): Promise<void> {
    return (this.settled ??= new Promise((resolve) => {
      if (this.acquirer.phase !== 'stopping') return resolve();
      this.graceEndsAt = this.clock.now() + graceMs;
      this.graceTimer = this.clock.schedule(graceMs, onGraceOver);
      this.endSettling = resolve;
      this.watch(latestCall());
    }));
  }

  /** Refuses all callers that run in no hold, and waits for the holds until `graceMs` is over. */
  async drain(graceMs: number): Promise<void> {
    const { acquirer, leases, clock, graceEndsAt = clock.now() + graceMs } = this;
    this.graceTimer?.cancel();
    acquirer.onRefused = undefined;
    acquirer.phase = 'draining';
    this.lines.refuseOutsiders();
    if (leases.watchdog.size > 0) await leases.drain(Math.max(0, graceEndsAt - clock.now()));
    acquirer.phase = 'closed';
    this.endSettling?.();
  }

  /** Ends the settling as soon as no call up to that number waits or holds a lock. */
  private watch(last: number): void {
    let isDue = false;
    const check = (): void => {
      isDue = false;
      // From then on, `drain` ends the settling.
      if (this.acquirer.phase !== 'stopping' || this.hasCalls(last)) return;
      this.acquirer.onRefused = this.leases.onEnded = undefined;
      this.endSettling?.();
    };
    // Once a tick, because many holds may end in one, and because a call may be between two requests.
    const onEnded = (): void => {
      if (!isDue) atEndOfTick(check);
      isDue = true;
    };
    this.acquirer.onRefused = onEnded;
    this.leases.onEnded = onEnded;
    check();
  }

  private hasCalls(last: number): boolean {
    for (const { call } of this.leases.watchdog.grants()) if (call <= last) return true;
    for (const { call = 0 } of this.lines.waiting()) if (call <= last) return true;
    return false;
  }
}
