/**
 * The locks of one family of one module instance.
 *
 * @publicApi
 */
export interface LockOrderFamily {
  /** The name of the module instance, `default` if it has none. */
  readonly instance: string;
  /** The family, as events show it: `goods` for `goods:300`. */
  readonly family: string;
}

/**
 * A lock of one family was requested while a lock of another family, or of the same one, was held.
 *
 * @publicApi
 */
export interface LockOrderEdge {
  /** The lock that was held. */
  readonly held: LockOrderFamily;
  /** The lock that was requested. */
  readonly taken: LockOrderFamily;
  /**
   * How the resources of one family compare: the requested one comes after the held one (`rising`) or before it.
   * Undefined for two families.
   */
  readonly ids: 'rising' | 'falling' | undefined;
  /** Where: the `@Locked` methods, or the places of calls of `LockService`. At most eight. */
  readonly places: readonly string[];
}

/**
 * Edges that form a cycle. Each begins where the one before it ends. The last edge was seen last.
 *
 * @publicApi
 */
export type LockOrderCycle = readonly LockOrderEdge[];

const MAX_FAMILIES = 256;
const MAX_EDGES = 2_048;
const MAX_PLACES = 8;
const MAX_CYCLES = 64;

// The same order on every machine. Numbers compare by value, as in a program that sorts ids.
const byNumber = new Intl.Collator('en', { numeric: true });

class Family implements LockOrderFamily {
  /** The edges that begin here. */
  readonly next = new Map<Family, Edge>();
  /** The edges to this family itself, by how their resources compare as text and by their numbers. */
  readonly own: (Edge | undefined)[] = [];

  constructor(
    readonly instance: string,
    readonly family: string,
  ) {}
}

/** One edge of the graph. */
class Edge implements LockOrderEdge {
  readonly places: string[] = [];
  /** The cycle that this edge has closed. Undefined if it closes none. */
  cycle: LockOrderCycle | undefined = undefined;
  /** By the method that holds the lock: the methods that request the other lock. */
  private readonly methods = new Map<string | undefined, Set<string | undefined>>();

  constructor(
    readonly held: Family,
    readonly taken: Family,
    readonly ids: LockOrderEdge['ids'],
  ) {}

  add({ holder, taker }: OrderStep, placeOf: PlaceOf): void {
    const takers = this.methods.get(holder);
    if (takers?.has(taker) || this.places.length >= MAX_PLACES) return;
    if (takers === undefined) this.methods.set(holder, new Set([taker]));
    else takers.add(taker);
    const place = placeOf(holder, taker);
    if (!this.places.includes(place)) this.places.push(place);
  }
}

/** What a caller holds or requests, as the graph remembers it. */
export interface OrderedLock {
  readonly instance: string;
  readonly family: string;
  readonly resource: string;
}

/** A step from a lock that is held to one that is requested. */
export interface OrderStep {
  readonly held: OrderedLock;
  readonly taken: OrderedLock;
  /** The `@Locked` method that holds the lock. Undefined for a call of `LockService`. */
  readonly holder: string | undefined;
  /** The `@Locked` method that requests the other one. Undefined for a call of `LockService`. */
  readonly taker: string | undefined;
}

/** Returns where a step is made. Called for each new pair of methods. */
export type PlaceOf = (holder: string | undefined, taker: string | undefined) => string;

/** What a step means. */
export interface StepResult {
  /** The cycle that the step's edge has closed, now or earlier. */
  readonly cycle: LockOrderCycle;
  /** Whether this step closed the cycle. */
  readonly isNew: boolean;
}

/**
 * Remembers for which pairs of families a lock of one was requested while a lock of the other was held, as Linux's
 * lockdep does for its lock classes. It keeps no ids. It has up to 256 families and 2,048 edges, and ignores further
 * ones.
 */
export class OrderGraph {
  private readonly families = new Map<string, Map<string, Family>>();
  private readonly all: Edge[] = [];
  private familyCount = 0;
  private full = false;
  readonly cycles: LockOrderCycle[] = [];

  constructor(private readonly placeOf: PlaceOf) {}

  get edges(): readonly LockOrderEdge[] {
    return this.all;
  }

  /** Whether all steps could be remembered. */
  get isComplete(): boolean {
    return !this.full;
  }

  /** Remembers a step. Returns the cycle that its edge closes. */
  add(step: OrderStep): StepResult | undefined {
    const { held, taken } = step;
    const from = this.familyOf(held);
    const to = this.familyOf(taken);
    if (from === undefined || to === undefined) return undefined;
    const comparison = from === to ? compareResources(held.resource, taken.resource) : undefined;
    const known = comparison === undefined ? from.next.get(to) : from.own[comparison];
    if (known !== undefined) {
      known.add(step, this.placeOf);
      return known.cycle && { cycle: known.cycle, isNew: false };
    }
    return this.addEdge(from, to, comparison, step);
  }

  clear(): void {
    this.families.clear();
    this.all.length = 0;
    this.cycles.length = 0;
    this.familyCount = 0;
    this.full = false;
  }

  private addEdge(from: Family, to: Family, comparison: number | undefined, step: OrderStep): StepResult | undefined {
    if (this.all.length >= MAX_EDGES) {
      this.full = true;
      return undefined;
    }
    const edge = new Edge(from, to, comparison === undefined ? undefined : directionOf(comparison));
    edge.add(step, this.placeOf);
    this.all.push(edge);
    if (comparison === undefined) from.next.set(to, edge);
    else from.own[comparison] = edge;
    const others = comparison === undefined ? wayBetween(to, from) : otherOrders(from, edge);
    if (others === undefined) return undefined;
    edge.cycle = [...others, edge];
    const isNew = this.cycles.length < MAX_CYCLES;
    if (isNew) this.cycles.push(edge.cycle);
    return { cycle: edge.cycle, isNew };
  }

  private familyOf({ instance, family }: OrderedLock): Family | undefined {
    let families = this.families.get(instance);
    const known = families?.get(family);
    if (known !== undefined) return known;
    if (this.familyCount >= MAX_FAMILIES) {
      // A program may take the first segment of a resource from its client.
      this.full = true;
      return undefined;
    }
    if (families === undefined) this.families.set(instance, (families = new Map()));
    const created = new Family(instance, family);
    families.set(family, created);
    this.familyCount += 1;
    return created;
  }
}

/** Returns the shortest path from one family to another. Undefined if no path exists. */
function wayBetween(from: Family, to: Family): readonly Edge[] | undefined {
  const reachedBy = new Map<Family, Edge | undefined>([[from, undefined]]);
  for (const family of reachedBy.keys()) {
    if (family === to) break;
    for (const [next, edge] of family.next) if (!reachedBy.has(next)) reachedBy.set(next, edge);
  }
  if (!reachedBy.has(to)) return undefined;
  const way: Edge[] = [];
  for (let edge = reachedBy.get(to); edge !== undefined; edge = reachedBy.get(edge.held)) way.unshift(edge);
  return way;
}

/**
 * Returns a family's other edges to itself if its locks are taken in no order by id: neither by the text nor by the
 * numbers of their resources. Undefined if they may be in order.
 */
function otherOrders({ own }: Family, edge: Edge): readonly Edge[] | undefined {
  const seen = own.flatMap((known, comparison) => (known === undefined ? [] : [comparison]));
  const isMixed = (bit: number): boolean => new Set(seen.map((comparison) => comparison & bit)).size > 1;
  if (!isMixed(FALLS_AS_TEXT) || !isMixed(FALLS_BY_NUMBER)) return undefined;
  return own.filter((known): known is Edge => known !== undefined && known !== edge);
}

const FALLS_AS_TEXT = 1;
const FALLS_BY_NUMBER = 2;

/** Returns how the requested resource compares with the one that is held. */
function compareResources(held: string, taken: string): number {
  const asText = taken < held ? FALLS_AS_TEXT : 0;
  return asText + (byNumber.compare(taken, held) < 0 ? FALLS_BY_NUMBER : 0);
}

function directionOf(comparison: number): 'rising' | 'falling' {
  return (comparison & FALLS_BY_NUMBER) === 0 ? 'rising' : 'falling';
}
