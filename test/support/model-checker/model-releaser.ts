import { handoffLease } from '../../../lib/core/lease/lease.js';
import type { Clock } from '../../../lib/core/time/clock.js';
import type { Release, Releaser } from '../../../lib/core/lease/releaser.js';
import type { Line } from './network.js';

const REPEAT_AFTER_MS = 100;

interface Pending extends Release {
  readonly leaseOverAt: number;
  /** Whether a later request may overtake it. */
  readonly isLate: boolean;
}

/** Does what `lib/core/lease/releaser.ts` does, without promises. Repeats the releases that a connection has lost. */
export class ModelReleaser implements Pick<Releaser, 'release' | 'releaseBehind' | 'isReleasing'> {
  private unanswered: readonly Pending[] = [];
  /** Those that are repeated after a pause. */
  private repeated: readonly Pending[] = [];

  constructor(
    private readonly line: Line,
    private readonly clock: Clock,
    private readonly tokens: number,
    private readonly requestTimeoutMs: number,
    private readonly silent = false,
  ) {}

  release(release: Release, _now?: number, isLate = false): Promise<boolean> {
    this.send({ ...release, leaseOverAt: this.clock.now() + this.requestTimeoutMs + release.leaseMs, isLate });
    return IGNORED_REPLY;
  }

  releaseBehind(release: Release, isLost = false): void {
    if (!this.silent) void this.release(release, undefined, isLost);
  }

  isReleasing(key: string): boolean {
    return [...this.unanswered, ...this.repeated].some((release) => release.isLate && release.key === key);
  }

  onDisconnected(): void {
    const lost = this.unanswered;
    this.unanswered = [];
    for (const release of lost) {
      if (this.clock.now() + REPEAT_AFTER_MS < release.leaseOverAt) this.repeat({ ...release, isLate: true });
    }
  }

  crash(): void {
    this.unanswered = this.repeated = [];
  }

  private repeat(release: Pending): void {
    this.repeated = [...this.repeated, release];
    this.clock.schedule(REPEAT_AFTER_MS, () => {
      this.repeated = without(this.repeated, release);
      this.send(release);
    });
  }

  private send(release: Pending): void {
    const { key, owner, mode, leaseMs, closedUntil } = release;
    const closedForMs = Math.max(0, Math.ceil(closedUntil - this.clock.now()));
    const body = { keys: [key], owner, mode, closedForMs, handoffMs: handoffLease(leaseMs), tokens: this.tokens };
    const onReply = (): void => void (this.unanswered = without(this.unanswered, release));
    this.unanswered = [...this.unanswered, release];
    this.line.requests.push({ verb: 'release', body, onReply, sender: release });
  }
}

function without(releases: readonly Pending[], one: Pending): readonly Pending[] {
  return releases.filter((release) => release !== one);
}

const IGNORED_REPLY = Promise.resolve(true);
