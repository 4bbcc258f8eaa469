/** A report of a process about one of its callers. All moments are on the machine's clock. */
export type Report =
  | { readonly kind: 'asked'; readonly id: string; readonly resource: string; readonly at: number }
  /** The caller held the lock at that moment by its own deadline. */
  | { readonly kind: 'entered'; readonly id: string; readonly token: number; readonly at: number }
  /** The caller releases the lock, and held it at the last report. */
  | { readonly kind: 'left'; readonly id: string; readonly at: number; readonly seen: number }
  /** The caller got no lock. */
  | { readonly kind: 'gone'; readonly id: string; readonly at: number; readonly fault: string | undefined };

/** From the request to its end. */
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

/** A time in which a process was stopped or dead. */
interface Absence {
  readonly pid: number;
  readonly from: number;
  to: number;
}

/** Allowance for messages in flight and for a busy machine. */
const SLACK_MS = 400;

/** Checks the reports of many processes about their locks. */
export class Referee {
  readonly faults: string[] = [];
  /** The longest wait for a free lock beyond the allowance for absent processes. */
  longestMs = 0;
  private readonly visits = new Map<string, Visit>();
  private readonly absences: Absence[] = [];

  /** @param leaseMs the lease of every lock, also the longest handoff lease. */
  constructor(private readonly leaseMs: number) {}

  get entered(): number {
    return this.holds.length;
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

  /** Records a killed process: a lock that it held or was handed stays closed for a lease. */
  killed(pid: number, at: number): void {
    this.absent(pid, at)(at + this.leaseMs);
  }

  /** Records a stopped process. Call the returned function once it continues. */
  absent(pid: number, from: number): (to: number) => void {
    const absence = { pid, from, to: Infinity };
    this.absences.push(absence);
    return (to) => (absence.to = to);
  }

  /** The violations found so far. */
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

  /** A live process waits for a free lock for at most one lease per absent process. */
  private judgeGaps(holds: readonly Hold[]): void {
    let freeAt = -Infinity;
    let freedBy: number | undefined;
    for (const hold of holds) {
      const gapMs = hold.enteredAt - freeAt;
      const absent = this.absentBetween(freeAt - this.leaseMs, hold.enteredAt);
      // The holder was not in the queue. If it was stopped, its other callers could not enter either.
      const inQueue = [...absent].filter((pid) => pid !== freedBy).length;
      const beyondMs = gapMs - inQueue * this.leaseMs;
      const waiter = beyondMs > this.longestMs ? this.waiterThrough(freeAt, hold.enteredAt, absent) : undefined;
      if (waiter !== undefined) this.longestMs = beyondMs;
      if (waiter !== undefined && beyondMs > SLACK_MS) {
        const message = `${waiter.id} waited ${gapMs} ms for ${hold.resource} beside ${inQueue} absent ones`;
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

  /** Returns the end of a hold. The hold of an absent process lasts for its lease. */
  private validUntil({ pid, enteredAt, leftAt = Infinity }: Hold): number {
    const absence = this.absences.find((one) => one.pid === pid && one.to >= enteredAt && one.from <= leftAt);
    return Math.min(leftAt, absence === undefined ? Infinity : absence.from + this.leaseMs);
  }
}
