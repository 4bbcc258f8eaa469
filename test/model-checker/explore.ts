import { type Choice, choices } from './choices.js';
import type { Exchange } from './exchange.js';
import { fingerprint } from './fingerprint.js';
import { check } from './invariants.js';
import { rerun, type Violation } from './rerun.js';
import type { Scenario } from './scenario.js';
import { settle } from './settle.js';
import { World } from './world.js';

/** What was explored; all of it, unless there is a violation. */
export interface Exploration {
  readonly states: number;
  readonly transitions: number;
  /** Ends of runs, at which everybody's getting the lock was tried out. */
  readonly leaves: number;
  readonly longestRun: number;
  readonly slowestEndMs: number;
  readonly violation: Violation | undefined;
}

/** How far an exploration has come. */
export type Progress = Pick<Exploration, 'states' | 'transitions'>;

/**
 * Goes through all states that a scenario can come to, depth first, each state once. Nothing is left out silently: an
 * exploration ends when there is nothing new, or with the first violation.
 *
 * @param onProgress is called now and then.
 */
export function explore(
  scenario: Scenario,
  observe?: (exchange: Exchange) => void,
  onProgress?: (progress: Progress) => void,
): Exploration {
  const { stackTraceLimit } = Error;
  // Leases are lost a hundred thousand times here, and nobody reads where.
  Error.stackTraceLimit = 0;
  try {
    const explorer = new Explorer(scenario, observe, onProgress);
    explorer.visit();
    return explorer;
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

const DOUBT_EVERY = 101;
const PROGRESS_EVERY = 1_000;

class Explorer implements Exploration {
  transitions = 0;
  leaves = 0;
  longestRun = 0;
  slowestEndMs = 0;
  violation: Violation | undefined;

  private readonly world: World;
  private readonly run: string[] = [];
  private readonly visited = new Set<string>();
  /** Of some states, the states that follow. */
  private readonly nextOf = new Map<string, string>();
  /** States from which a run without mishaps comes to a good end, and how long that takes. */
  private readonly good = new Map<string, number>();

  constructor(
    scenario: Scenario,
    observe?: (exchange: Exchange) => void,
    private readonly onProgress?: (progress: Progress) => void,
  ) {
    this.world = new World(scenario, observe);
  }

  get states(): number {
    return this.visited.size;
  }

  visit(): void {
    const options = choices(this.world);
    this.longestRun = Math.max(this.longestRun, this.run.length);
    const goBack = this.world.capture();
    if (options.length === 0) this.end();
    options.forEach((choice, i) => {
      if (this.violation !== undefined) return;
      if (i > 0) goBack();
      this.run.push(choice.label);
      this.take(choice);
      this.run.pop();
    });
  }

  private take(choice: Choice): void {
    choice.take();
    this.transitions += 1;
    check(this.world);
    if (this.world.violation !== undefined) return this.violated();
    const state = fingerprint(this.world);
    if (this.visited.has(state)) return this.compare(state);
    this.visited.add(state);
    if (this.states % PROGRESS_EVERY === 0) this.onProgress?.(this);
    if (this.states % DOUBT_EVERY === 0) this.doubt(state);
    if (this.violation === undefined) this.visit();
  }

  /** Going back puts the state together from notes: whether it is the one that its run leads to is tried out. */
  private doubt(state: string): void {
    this.nextOf.set(state, this.successors());
    const again = rerun(this.world.scenario, this.run);
    if (again !== undefined && fingerprint(again) === state) return;
    this.world.violate('explorer: going back does not lead to where the run leads');
    this.violated();
  }

  /** States that are taken for equal have to go the same ways. */
  private compare(state: string): void {
    const expected = this.nextOf.get(state);
    if (expected === undefined || expected === this.successors()) return;
    this.world.violate('explorer: two states that are taken for equal are not');
    this.violated();
  }

  private successors(): string {
    const goBack = this.world.capture();
    const states = choices(this.world).map(({ take }) => {
      take();
      const state = fingerprint(this.world);
      goBack();
      return state;
    });
    return states.toSorted().join();
  }

  private end(): void {
    this.leaves += 1;
    const passed = new Map<string, number>();
    const restOf = (): number | undefined => {
      const state = fingerprint(this.world, false);
      if (!passed.has(state)) passed.set(state, this.world.time.now);
      return this.good.get(state);
    };
    const begin = this.world.time.now;
    const tookMs = settle(this.world, restOf);
    if (this.world.violation !== undefined) return this.violated();
    this.slowestEndMs = Math.max(this.slowestEndMs, tookMs);
    for (const [state, at] of passed) this.good.set(state, begin + tookMs - at);
  }

  private violated(): void {
    this.violation ??= { what: this.world.violation as string, run: [...this.run] };
  }
}
