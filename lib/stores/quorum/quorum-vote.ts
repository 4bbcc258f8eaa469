/**
 * The effect of one node's reply on the result of a request.
 *
 * - `yes`, `no`: the reply counts.
 * - `granted`: the node has given the lock with a lower token. It becomes `yes` when the agreed token is written back.
 * - `no-reply`: the request failed or timed out.
 */
export type Ballot = 'granted' | 'yes' | 'no' | 'no-reply';

/** Returns more than half of the nodes: any two majorities have a node in common. */
export function majorityOf(nodes: number): number {
  return Math.floor(nodes / 2) + 1;
}

/** Counts the ballots of one request. A vote is decided as soon as missing replies cannot change its result. */
export class Vote {
  readonly majority: number;
  private readonly ballots: (Ballot | undefined)[];

  constructor(private readonly nodes: number) {
    this.majority = majorityOf(nodes);
    this.ballots = Array.from<undefined>({ length: nodes });
  }

  /** Records a node's ballot and replaces the earlier one of that node. */
  cast(node: number, ballot: Ballot): void {
    this.ballots[node] = ballot;
  }

  /** Returns a node's last ballot. Undefined before its first. */
  of(node: number): Ballot | undefined {
    return this.ballots[node];
  }

  /** Counts the nodes whose last ballot is this one. Undefined counts the nodes without a ballot. */
  count(ballot: Ballot | undefined): number {
    let count = 0;
    for (const cast of this.ballots) if (cast === ballot) count += 1;
    return count;
  }

  /** A majority has said yes. */
  get carried(): boolean {
    return this.count('yes') >= this.majority;
  }

  /** A majority can no longer say yes, because too many nodes said no or did not reply. */
  get cannotCarry(): boolean {
    return this.nodes - this.count('no') - this.count('no-reply') < this.majority;
  }

  /** A majority could not say yes even if all nodes without a reply did. */
  get defeated(): boolean {
    return this.nodes - this.count('no') < this.majority;
  }

  /** A majority has replied. */
  get replied(): boolean {
    return this.nodes - this.count(undefined) - this.count('no-reply') >= this.majority;
  }

  /** A majority can no longer reply. */
  get unreachable(): boolean {
    return this.nodes - this.count('no-reply') < this.majority;
  }

  /** Every node has a ballot. */
  get complete(): boolean {
    return this.count(undefined) === 0;
  }
}
