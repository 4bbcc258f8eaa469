/** What a process tells of one of its callers; every moment is on the machine's clock. */
export type Report =
  | { readonly kind: 'asked'; readonly id: string; readonly resource: string; readonly at: number }
  /** It held the lock at that moment, by its own deadline. */
  | { readonly kind: 'entered'; readonly id: string; readonly token: number; readonly at: number }
  /** It gives the lock back now, and held it still when it was last seen. */
  | { readonly kind: 'left'; readonly id: string; readonly at: number; readonly seen: number }
  /** It has got no lock. */
  | { readonly kind: 'gone'; readonly id: string; readonly at: number; readonly fault: string | undefined };

/** From asking to the end, whatever that was. */
interface Visit {
  readonly id: string;
  readonly pid: number;
  readonly resource: string;
  readonly askedAt: number;
  token: number | undefined;
  enteredAt: number | undefined;
  seenAt: number;
  leftAt: number | undefined;
}

type Hold = Visit & { readonly token: number; readonly enteredAt: number };

/** Time in which a process was stopped, or in which it was missed, having died. */
interface Absence {
  readonly pid: number;
  readonly from: number;
  to: number;
}

/** What is not the protocol's: messages on their way, and a machine that has other things to do. */
const SLACK_MS = 400;

/** Judges what many processes report of their locks. */
export class Referee {
  readonly faults: string[] = [];
  /** The longest that anybody waited while nobody held the lock, beyond what is allowed for those who are absent. */
  longestMs = 0;
  private readonly visits = new Map<string, Visit>();
  private readonly absences: Absence[] = [];

  /** @param leaseMs of every lock; also the longest lease that a lock is handed over with. */
  constructor(private readonly leaseMs: number) {}

  get entered(): number {
    return this.holds.length;
  }

  get absentTimes(): number {
    return this.absences.length;
  }

  hear(pid: number, report: Report): void {
    const { id, at } = report;
    if (report.kind === 'asked') {
      const { resource } = report;
      const nothing = { token: undefined, enteredAt: undefined, seenAt: at, leftAt: undefined };
      this.visits.set(id, { id, pid, resource, askedAt: at, ...nothing });
      return;
    }
    const visit = this.visits.get(id) as Visit;
    if (report.kind === 'entered') {
      visit.token = report.token;
      visit.enteredAt = visit.seenAt = at;
    } else visit.leftAt = at;
    if (report.kind === 'left') visit.seenAt = report.seen;
    if (report.kind === 'gone' && report.fault !== undefined) this.faults.push(report.fault);
  }

  /** A process is killed: what it held, or was being handed, stays closed for a lease. */
  killed(pid: number, at: number): void {
    this.absent(pid, at)(at + this.leaseMs);
  }

  /** A process is stopped; call what is answered when it goes on. */
  absent(pid: number, from: number): (to: number) => void {
    const absence = { pid, from, to: Infinity };
    this.absences.push(absence);
    return (to) => (absence.to = to);
  }

  /** All that was seen to be wrong. */
  judge(): readonly string[] {
    for (const resource of new Set(this.holds.map((hold) => hold.resource))) {
      const holds = this.holds.filter((hold) => hold.resource === resource);
      holds.sort((one, other) => one.enteredAt - other.enteredAt);
      for (const [i, next] of holds.entries()) if (i > 0) this.judgeTurn(holds[i - 1], next);
      this.judgeGaps(holds);
    }
    return this.faults;
  }

  private get holds(): Hold[] {
    return [...this.visits.values()].filter((visit): visit is Hold => visit.token !== undefined);
  }

  private judgeTurn(before: Hold, next: Hold): void {
    const turn = `${next.resource}: ${next.id} after ${before.id}`;
    if (next.enteredAt < before.seenAt) this.faults.push(`two held ${turn}, for ${before.seenAt - next.enteredAt} ms`);
    if (next.token <= before.token) this.faults.push(`the token did not rise, ${turn}`);
  }

  /** While nobody validly holds the lock, nobody who lives waits longer than one lease per process that is absent. */
  private judgeGaps(holds: readonly Hold[]): void {
    let freeAt = -Infinity;
    let freedBy: number | undefined;
    for (const hold of holds) {
      const gapMs = hold.enteredAt - freeAt;
      const absent = this.absentBetween(freeAt - this.leaseMs, hold.enteredAt);
      // Who had it stood not in the queue as well.
      if (freedBy !== undefined) absent.delete(freedBy);
      const beyondMs = gapMs - absent.size * this.leaseMs;
      const waiter = beyondMs > this.longestMs ? this.waiterThrough(freeAt, hold.enteredAt, absent) : undefined;
      if (waiter !== undefined) this.longestMs = beyondMs;
      if (waiter !== undefined && beyondMs > SLACK_MS) {
        const message = `${waiter.id} waited ${gapMs} ms for ${hold.resource} beside ${absent.size} absent ones`;
        this.faults.push(message);
      }
      const validUntil = this.validUntil(hold);
      if (validUntil < freeAt) continue;
      freeAt = validUntil;
      freedBy = hold.pid;
    }
  }

  private waiterThrough(from: number, to: number, absent: ReadonlySet<number>): Visit | undefined {
    for (const visit of this.visits.values()) {
      const waitedUntil = visit.enteredAt ?? visit.leftAt ?? -Infinity;
      if (visit.askedAt <= from && waitedUntil >= to && !absent.has(visit.pid)) return visit;
    }
    return undefined;
  }

  private absentBetween(from: number, to: number): Set<number> {
    return new Set(this.absences.filter((one) => one.from <= to && one.to >= from).map(({ pid }) => pid));
  }

  /** Until when a hold keeps the others out: absent holders do to the end of their lease. */
  private validUntil({ pid, enteredAt, leftAt = Infinity }: Hold): number {
    const absence = this.absences.find((one) => one.pid === pid && one.to >= enteredAt && one.from <= leftAt);
    return Math.min(leftAt, absence === undefined ? Infinity : absence.from + this.leaseMs);
  }
}
