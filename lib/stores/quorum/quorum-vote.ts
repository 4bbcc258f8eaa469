/**
 * What a node has said: `given`, it is ours there, but that does not count yet; `yes` and `no` count; `silent`, no answer of use.
 */
export type Ballot = 'given' | 'yes' | 'no' | 'silent';

/** One question to a number of nodes, decided as soon as the answers that are still missing cannot change the result. */
export class Vote {
  /** More than half: any two majorities have a node in common. */
  readonly majority: number;
  private readonly ballots: (Ballot | undefined)[];

  constructor(private readonly nodes: number) {
    this.majority = Math.floor(nodes / 2) + 1;
    this.ballots = Array.from<undefined>({ length: nodes });
  }

  /** Takes in what a node has said, in place of what it said before. */
  cast(node: number, ballot: Ballot): void {
    this.ballots[node] = ballot;
  }

  /** What a node has said last; undefined if nothing yet. */
  of(node: number): Ballot | undefined {
    return this.ballots[node];
  }

  /** How many have said that last, or nothing yet. */
  count(ballot: Ballot | undefined): number {
    let count = 0;
    for (const cast of this.ballots) if (cast === ballot) count += 1;
    return count;
  }

  /** A majority has said yes. */
  get carried(): boolean {
    return this.count('yes') >= this.majority;
  }

  /** A majority cannot say yes any more: too many have said no, or nothing. */
  get hopeless(): boolean {
    return this.nodes - this.count('no') - this.count('silent') < this.majority;
  }

  /** A majority cannot say yes any more, even if those that were silent would. */
  get defeated(): boolean {
    return this.nodes - this.count('no') < this.majority;
  }

  /** A majority has answered, whatever it was. */
  get reached(): boolean {
    return this.nodes - this.count(undefined) - this.count('silent') >= this.majority;
  }

  /** A majority cannot answer any more. */
  get unreachable(): boolean {
    return this.nodes - this.count('silent') < this.majority;
  }

  /** Nothing is missing. */
  get complete(): boolean {
    return this.count(undefined) === 0;
  }
}
