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
  readonly resource: string;
  token: number | undefined;
  enteredAt: number | undefined;
  seenAt: number;
}

type Hold = Visit & { readonly token: number; readonly enteredAt: number };

/** Checks the reports of many processes about their locks. */
export class Referee {
  readonly faults: string[] = [];
  private readonly visits = new Map<string, Visit>();

  get entered(): number {
    return this.holds.length;
  }

  hear(report: Report): void {
    const { id, at } = report;
    if (report.kind === 'asked') {
      const { resource } = report;
      const nothing = { token: undefined, enteredAt: undefined, seenAt: at };
      this.visits.set(id, { id, resource, ...nothing });
      return;
    }
    const visit = this.visits.get(id) as Visit;
    if (report.kind === 'entered') {
      visit.token = report.token;
      visit.enteredAt = visit.seenAt = at;
    }
    if (report.kind === 'left') visit.seenAt = report.seen;
    if (report.kind === 'gone' && report.fault !== undefined) this.faults.push(report.fault);
  }

  /** The violations found so far. */
  judge(): readonly string[] {
    for (const resource of new Set(this.holds.map((hold) => hold.resource))) {
      const holds = this.holds.filter((hold) => hold.resource === resource);
      holds.sort((one, other) => one.enteredAt - other.enteredAt);
      for (const [i, next] of holds.entries()) if (i > 0) this.judgeTurn(holds[i - 1], next);
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
}
