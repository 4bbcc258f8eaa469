/** How many grants of one hash tag within {@link WINDOW_MICROS} make it hot: 1,000 a second, in one instance. */
export const HOT_GRANTS = 10_000;
/** In µs, as tokens are. */
const WINDOW_MICROS = 10_000_000;

/** Bounds the memory. Keys with braces of their own may have any number of hash tags. */
const MOST_TAGS = 1_000;
/** Nobody reads more warnings than that. */
const MOST_WARNINGS = 10;

/** The grants of one hash tag since the window has begun. */
interface Load {
  readonly endsAt: number;
  grants: number;
  /** If one key has more than half of the grants, it is this one, and it has more votes than 0. */
  candidate: string;
  votes: number;
}

/**
 * Finds the families of a cluster that are used so often that the one node with their slot may not suffice. Counts the
 * grants of this instance. A token is the server's time of its grant, so this reads no clock.
 */
export class HotTags {
  private readonly loads = new Map<string, Load>();
  private readonly reported = new Set<string>();

  /**
   * @param report called once for each family, with one line.
   * @param hotGrants how many grants within the window make a family hot.
   */
  constructor(
    private readonly report: (line: string) => void,
    private readonly hotGrants: number = HOT_GRANTS,
  ) {}

  /**
   * Counts a grant.
   *
   * @param tag the hash tag of the key.
   */
  onGranted(tag: string, key: string, token: number): void {
    const load = this.loads.get(tag);
    if (load === undefined || token >= load.endsAt) return this.begin(tag, key, token);
    load.grants += 1;
    // The majority vote of Boyer and Moore, which needs no count of each key.
    if (load.candidate === key) load.votes += 1;
    else if (load.votes > 0) load.votes -= 1;
    else [load.candidate, load.votes] = [key, 1];
    if (load.grants === this.hotGrants) this.onHot(tag, key, load);
  }

  private begin(tag: string, key: string, token: number): void {
    if (this.loads.size >= MOST_TAGS) this.loads.clear();
    this.loads.set(tag, { endsAt: token + WINDOW_MICROS, grants: 1, candidate: key, votes: 1 });
  }

  private onHot(tag: string, key: string, { votes }: Load): void {
    // One busy lock is in one slot in any case. Braces of the resource itself are the user's choice.
    const isSpread = votes < this.hotGrants / 2 && key.startsWith('{');
    if (!isSpread || this.reported.has(tag) || this.reported.size >= MOST_WARNINGS) return;
    this.reported.add(tag);
    this.report(
      `One node of the cluster serves all locks with the hash tag {${tag}}, and their fencing tokens: this instance ` +
        `alone was granted ${this.hotGrants} of them within ${WINDOW_MICROS / 1_000_000} s. The option hashTag: ` +
        `'resource' spreads them over all nodes. It changes the keys, so all instances have to change at once.`,
    );
  }
}
