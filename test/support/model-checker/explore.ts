import { type Choice, choices } from './choices.js';
import type { Exchange } from './exchange.js';
import { fingerprint } from './fingerprint.js';
import { check } from './invariants.js';
import { rerun, type Violation } from './rerun.js';
import type { Scenario } from './scenario.js';
import { settle } from './settle.js';
import { World } from './world.js';

/** What an exploration has found. It is complete unless there is a violation. */
export interface Exploration {
  readonly states: number;
  readonly transitions: number;
  /** Ends of runs. From each, every waiting caller must get the lock. */
  readonly leaves: number;
  readonly longestRun: number;
  readonly slowestEndMs: number;
  readonly violation: Violation | undefined;
}

/** How far an exploration has come. */
export type Progress = Pick<Exploration, 'states' | 'transitions'>;

/**
 * Visits all states that a scenario can reach, depth first, each state once. Ends when there is no new state, or with
 * the first violation.
 *
 * @param onProgress is called now and then.
 */
export function explore(
  scenario: Scenario,
  observe?: (exchange: Exchange) => void,
  onProgress?: (progress: Progress) => void,
): Exploration {
  const { stackTraceLimit } = Error;
  // Leases are lost a hundred thousand times here, and their stack traces are not used.
  Error.stackTraceLimit = 0;
  try {
    const explorer = new Explorer(scenario, observe, onProgress);
    explorer.visit();
    return explorer;
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

const VERIFY_EVERY = 101;
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
  /** The states that follow some of the states. */
  private readonly nextOf = new Map<string, string>();
  /** The states from which a run without faults ends well, and how many milliseconds that takes. */
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
    if (this.states % VERIFY_EVERY === 0) this.verify(state);
    if (this.violation === undefined) this.visit();
  }

  /** Checks that a restored state is the one that its run leads to. */
  private verify(state: string): void {
    this.nextOf.set(state, this.successors());
    const again = rerun(this.world.scenario, this.run);
    if (again !== undefined && fingerprint(again) === state) return;
    this.world.violate('model checker: a restored state differs from the state that its run leads to');
    this.violated();
  }

  /** Checks that states with the same fingerprint have the same successors. */
  private compare(state: string): void {
    const expected = this.nextOf.get(state);
    if (expected === undefined || expected === this.successors()) return;
    this.world.violate('model checker: two states with the same fingerprint have different successors');
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
