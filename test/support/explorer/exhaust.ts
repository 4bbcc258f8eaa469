import { type Lock, LockError } from 'nestjs-redis-lock';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { MemoryStore } from '../../../lib/stores/memory/memory.store.js';
import { NO_FAULTS } from './conditions.js';
import { Instance } from './instance.js';
import { Referee } from './referee.js';
import { lookForRest } from './rest.js';

/**
 * What may happen once, at any moment: the connection of an instance ends, and what was on its way is lost, arrives
 * late or is sent again. A message is lost. An instance dies. All leases end before anything arrives.
 */
export type Fault = 'lost' | 'late' | 'resent' | 'silent' | 'dies' | 'expires';

/** One call for the only key. It waits without a limit. */
interface Call {
  readonly instance: number;
  readonly mode?: 'shared' | 'exclusive';
  /** Its caller stops waiting, at any moment. */
  readonly leaves?: boolean;
}

export interface Scenario {
  readonly title: string;
  readonly calls: readonly Call[];
  /** At most one of them happens. Default: none. */
  readonly faults?: readonly Fault[];
}

/** What a step changes, or depends on: an instance, the server, or the one fault. */
type Part = number | 'server' | 'fault';

/** Something that can happen next. */
interface Step {
  readonly id: string;
  readonly parts: readonly Part[];
  run(): void | Promise<void>;
}

/** Something that is on its way, or that a caller will do. */
interface Pending extends Step {
  readonly lane: string;
}

const LEASE_MS = 1_000;
/** The steps of the longest schedule. More steps mean that a call waits forever. */
const MOST_STEPS = 200;
/** How long the longest repetition is waited for. */
const QUIET_MS = 10_000;

class StepClock extends ManualClock {
  /** Advances the time to the next timer. */
  async toNext(): Promise<void> {
    const next = this.nextUntil(Infinity);
    if (next !== undefined) await this.advance(next.at - this.now());
  }
}

/** One schedule of a scenario. Somebody chooses each step. */
class Schedule {
  private readonly clock = new StepClock();
  private readonly memory = new MemoryStore(this.clock);
  private readonly referee = new Referee(() => this.clock.now(), this.memory.table);
  private readonly instances: readonly Instance[];
  private pending: Pending[] = [];
  private readonly counts = new Map<string, number>();
  private readonly faults: readonly Fault[];
  private hasFailed = false;

  constructor({ calls, faults = [] }: Scenario) {
    this.faults = faults;
    const count = Math.max(...calls.map(({ instance }) => instance)) + 1;
    this.instances = Array.from({ length: count }, (_, i) => {
      const instance = new Instance(this.memory, this.clock, this.referee, false);
      instance.wire.later = (_delayMs, task, lane) => this.add(i, lane, task);
      return instance;
    });
    calls.forEach((call, n) => this.add(call.instance, `call ${n}`, () => void this.call(call, n)));
  }

  get problems(): readonly string[] {
    return [...this.referee.violations];
  }

  /** Returns what can happen next. Nothing can at the end. */
  get steps(): readonly Step[] {
    const { pending } = this;
    const next = pending.filter(
      ({ lane }, i) => isLoose(lane) || pending.findIndex((each) => each.lane === lane) === i,
    );
    const isOver = next.length === 0 && this.instances.every(({ isDead, calls }) => isDead || calls === 0);
    if (isOver) return [];
    const faults = this.hasFailed ? [] : this.faults.flatMap((fault) => this.stepsOf(fault));
    // Time passes only if all instances wait for it.
    const time: Step = { id: 'time', parts: this.everything, run: () => this.clock.toNext() };
    // Faults come first, because none happens at the end.
    return [...faults, ...(next.length === 0 ? [time] : next)];
  }

  async take(step: Step): Promise<void> {
    this.pending = this.pending.filter(({ id }) => id !== step.id);
    await step.run();
    await this.settle();
    for (const { engine, isDead } of this.instances) this.referee.look(engine, !isDead);
  }

  /** Everything arrives. The server and the engines then keep nothing. */
  async end(isEndless: boolean): Promise<void> {
    if (isEndless) this.referee.report('a call waits forever');
    for (const { wire } of this.instances) wire.later = (_delayMs, task) => queueMicrotask(task);
    await this.clock.advance(QUIET_MS);
    lookForRest(this.instances, this.referee, this.memory.table);
  }

  async settle(): Promise<void> {
    for (let i = 0; i < 2; i += 1) await this.clock.advance(0);
  }

  private get everything(): readonly Part[] {
    return ['server', 'fault', ...this.instances.keys()];
  }

  private add(instance: number, lane: string, task: () => void): void {
    const isSent = lane === 'request' || lane === 'late';
    if (this.instances[instance]?.isDead && !isSent) return;
    const name = `${lane} of ${instance}`;
    const count = this.counts.get(name) ?? 0;
    this.counts.set(name, count + 1);
    const parts: readonly Part[] = isSent ? ['server'] : lane === 'subscribe' ? ['server', instance] : [instance];
    this.pending.push({ id: `${name} #${count}`, lane: name, parts, run: task });
  }

  private stepsOf(fault: Fault): readonly Step[] {
    const once = (id: string, parts: readonly Part[], happen: () => void | Promise<void>): Step => {
      const run = (): void | Promise<void> => {
        this.hasFailed = true;
        return happen();
      };
      return { id: `${fault} ${id}`, parts: ['fault', ...parts], run };
    };
    if (fault === 'expires') return [once('', this.everything, () => this.clock.advance(LEASE_MS + 1))];
    if (fault === 'silent') {
      const messages = this.pending.filter(({ lane }) => isLoose(lane));
      return messages.map(({ id, parts }) => once(id, parts, () => this.drop((each) => each.id === id)));
    }
    return this.instances.map((instance, i) => once(`${i}`, ['server', i], () => this.fail(fault, instance, i)));
  }

  private fail(fault: Fault, instance: Instance, i: number): void {
    if (fault === 'dies') {
      this.drop(({ parts }) => parts.includes(i));
      return instance.die();
    }
    // The wire knows what is on its way, and says what becomes of it.
    this.drop(({ lane }) => lane === `request of ${i}` || lane === `reply of ${i}`);
    const faults = { ...NO_FAULTS, arrivesLate: Number(fault === 'late'), resends: fault === 'resent' };
    instance.wire.faults = faults;
    instance.wire.disconnect();
  }

  private drop(isGone: (pending: Pending) => boolean): void {
    this.pending = this.pending.filter((pending) => !isGone(pending));
  }

  private async call({ instance: i, mode = 'exclusive', leaves = false }: Call, n: number): Promise<void> {
    const instance = this.instances[i];
    const leaving = new AbortController();
    if (leaves) this.add(i, `leave ${n}`, () => leaving.abort());
    const options = { mode, waitMs: Infinity, ttlMs: LEASE_MS, signal: leaving.signal };
    const work = async (lock: Lock): Promise<void> => {
      this.referee.start(instance.engine, lock, mode);
      this.referee.enter(lock);
      await new Promise<void>((ends) => this.add(i, `work ${n}`, ends));
      this.referee.leave(lock);
    };
    instance.calls += 1;
    try {
      await instance.service.using('k:0', options, work);
    } catch (error) {
      const isKnown = error instanceof LockError || (error as Error).name === 'AbortError';
      if (!isKnown) this.referee.report(`unexpected: ${(error as Error).stack}`);
    }
    instance.calls -= 1;
  }
}

/** Whether what travels there overtakes. */
function isLoose(lane: string): boolean {
  return lane.startsWith('message');
}

/** Whether the order of two steps makes no difference. */
function areIndependent(one: Step, other: Step): boolean {
  return !one.parts.some((part) => other.parts.includes(part));
}

/** A choice between steps, all of which are taken one after the other. */
interface Choice {
  readonly steps: readonly Step[];
  /** What was tried before in a way that makes no difference to trying it here. */
  readonly asleep: readonly Step[];
  taken: number;
}

export interface Exhausted {
  /** How many schedules were run to their end. */
  readonly schedules: number;
  /** What the first bad schedule has shown, and its steps. */
  readonly problems: readonly string[];
}

/**
 * Runs a scenario in every order of its steps, depth first: each schedule takes the steps of the one before it up to a
 * choice, and goes another way there. Of schedules that differ only in the order of independent steps one is run (sleep
 * sets, Godefroid). Stops at the first that shows a problem.
 */
export async function exhaust(scenario: Scenario): Promise<Exhausted> {
  const choices: Choice[] = [];
  let schedules = 0;
  do {
    const schedule = new Schedule(scenario);
    await schedule.settle();
    if (await runToEnd(schedule, choices)) schedules += 1;
    const { problems } = schedule;
    const names = choices.map(({ steps, taken }) => steps[taken].id);
    if (problems.length > 0) return { schedules, problems: [...problems, names.join(', ')] };
    while (choices.length > 0 && ++choices[choices.length - 1].taken === choices[choices.length - 1].steps.length)
      choices.pop();
  } while (choices.length > 0);
  return { schedules, problems: [] };
}

/** Takes the steps that are chosen, then the first of each further choice. Returns false if all is known from there. */
async function runToEnd(schedule: Schedule, choices: Choice[]): Promise<boolean> {
  let depth = 0;
  for (let steps = schedule.steps; steps.length > 0 && depth < MOST_STEPS; steps = schedule.steps) {
    if (depth === choices.length) {
      const asleep = asleepAfter(choices.at(-1));
      const untried = steps.filter(({ id }) => !asleep.some((each) => each.id === id));
      if (untried.length === 0) return false;
      choices.push({ steps: untried, asleep, taken: 0 });
    }
    const { id } = choices[depth].steps[choices[depth].taken];
    const step = steps.find((each) => each.id === id);
    if (step === undefined) throw new Error(`${id} cannot happen again`);
    await schedule.take(step);
    depth += 1;
  }
  await schedule.end(depth === MOST_STEPS);
  return true;
}

function asleepAfter(choice: Choice | undefined): readonly Step[] {
  if (choice === undefined) return [];
  const { steps, asleep, taken } = choice;
  return [...asleep, ...steps.slice(0, taken)].filter((step) => areIndependent(step, steps[taken]));
}
