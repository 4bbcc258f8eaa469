import { inspect } from 'node:util';
import { LockLostError, LockUnavailableError } from '../../../lib/core/errors.js';
import type { AcquireOptions } from '../../../lib/core/acquire/acquire-options.js';
import { passingLimitsOf } from '../../../lib/core/acquire/acquire-options.js';
import type { Hold } from '../../../lib/core/hold/lock.js';
import { runUnder } from '../../../lib/core/hold/run-under.js';
import { LockEngine } from '../../../lib/core/lock-engine.js';
import { instanceOf } from '../../../lib/core/store/instance-id.js';
import type { LockStore } from '../../../lib/core/store/lock-store.js';
import { LockTable, type LockTableDeps } from '../../../lib/stores/memory/lock-table.js';
import { VirtualClock } from '../simulation/virtual-clock.js';
import { Link } from './link.js';
import { LinkStore } from './link-store.js';
import { Machine } from './machine.js';
import { type Call, Oracle } from './oracle.js';
import { type AcquireStep, type CallerPlan, type Fault, KEYS, type Plan } from './plan.js';
import { leftoversOf } from './leftovers.js';
import { Server } from './server.js';

/** What came of a run. */
export interface Outcome {
  /** What has happened that must not happen. */
  readonly violation: string | undefined;
  readonly events: number;
  readonly grants: number;
  /** How long the run took on its own clock. */
  readonly virtualMs: number;
  /** What happened, one line each. Empty if nobody asked for it. */
  readonly trace: readonly string[];
}

export interface RunOptions {
  /** The server's table, for a protocol without one of its rules. */
  readonly table?: ((deps: LockTableDeps) => LockTable) | undefined;
  /** Wraps the store of a process. `now` reads the clock of its machine. */
  readonly store?: ((store: LockStore, now: () => number) => LockStore) | undefined;
  readonly traces?: boolean;
}

/** One process: its machine, its connections and its engine. */
interface Process {
  readonly machine: Machine;
  readonly store: LinkStore;
  readonly engine: LockEngine;
  isClosing: boolean;
}

/** More events than any run needs. */
const MANY_EVENTS = 300_000;
/** How long a run may continue after the last fault, without the time that its callers work. */
const PATIENCE_MS = 60_000;
/** The longest rest of a lock after its release, and some requests. */
const SETTLED_MS = 4_000;
/** The longest lease, its delay, and the time limit of a request. */
const REST_MS = 13_000;
const SPREAD = 0x9e3779b1;

/** Runs the plan with the real engine. The same plan always comes to the same outcome. */
export async function simulate(plan: Plan, options: RunOptions = {}): Promise<Outcome> {
  return new Simulation(plan, options).run();
}

class Simulation {
  private readonly timeline: VirtualClock;
  private readonly servers: readonly Server[];
  private readonly processes: readonly Process[];
  private readonly oracle: Oracle;
  private readonly trace: string[] = [];
  private readonly traces: boolean;
  private callersLeft = 0;
  private events = 0;

  constructor(
    private readonly plan: Plan,
    private readonly options: RunOptions,
  ) {
    const { table = (deps) => new LockTable(deps), traces = false } = options;
    this.traces = traces;
    this.timeline = new VirtualClock(plan.seed);
    const { timeline } = this;
    this.oracle = new Oracle(
      plan,
      () => timeline.now(),
      (key) => this.servers[this.indexOf(key)],
    );
    const keepsSnapshots = plan.faults.some(({ kind }) => kind === 'failover');
    this.servers = plan.servers.map(
      (settings, nth) => new Server(`s${nth + 1}`, timeline, settings, keepsSnapshots, table, this.oracle),
    );
    this.processes = plan.processes.map((_, nth) => this.start(nth));
  }

  async run(): Promise<Outcome> {
    const { plan, timeline, oracle } = this;
    plan.callers.forEach((caller, nth) => this.enter(caller, `p${caller.process + 1}.c${nth + 1}`));
    for (const fault of plan.faults) timeline.schedule(fault.at, () => this.happen(fault));
    const faultsEnd = Math.max(0, ...plan.faults.map(({ at, forMs }) => at + Math.abs(forMs)));
    await this.goOn(() => this.callersLeft === 0 && timeline.now() >= faultsEnd, faultsEnd + this.longestMs());
    const waiting = [...oracle.pending].filter(({ machine }) => machine.alive).map(({ name }) => name);
    if (this.callersLeft > 0) oracle.violate(`progress: ${waiting.join(', ') || 'a caller'} did not end`);
    await this.goOn(() => false, timeline.now() + SETTLED_MS);
    if (!mayStray(plan)) this.checkOrphans();
    await this.goOn(() => false, timeline.now() + REST_MS);
    for (const server of this.servers) oracle.onChanged(server);
    this.checkRest('at rest');
    for (const process of this.living()) void process.engine.close(0);
    await this.goOn(() => false, timeline.now() + 3_000);
    this.checkRest('after its close', true);
    const { violation, grants } = oracle;
    return { violation, events: this.events, grants, virtualMs: timeline.now(), trace: this.trace };
  }

  /** Lets time pass until a moment, or until `isOver`. */
  private async goOn(isOver: () => boolean, until: number): Promise<void> {
    const { timeline, oracle } = this;
    timeline.schedule(until - timeline.now(), () => undefined);
    await timeline.runUntil(() => {
      oracle.check();
      this.events += 1;
      if (this.events > MANY_EVENTS) oracle.violate('progress: the run does not come to rest');
      return oracle.violation !== undefined || timeline.now() >= until || isOver();
    });
  }

  /** How long all callers may take, one after the other. */
  private longestMs(): number {
    const { callers, faults, requestTimeoutMs } = this.plan;
    const steps = callers.flatMap(({ steps: own }) => own);
    const workMs = steps.reduce((sum, step) => {
      if (step.kind === 'force') return sum + step.pauseMs + requestTimeoutMs * 2;
      return sum + step.pauseMs + (step.workMs + step.minHoldMs) * 2 + step.keys.length * requestTimeoutMs;
    }, 0);
    // A fault may cost a lease.
    return PATIENCE_MS + workMs + faults.length * REST_MS;
  }

  private *living(): Generator<Process> {
    for (const process of this.processes) if (process.machine.alive) yield process;
  }

  /** Checks that nothing is left on the servers of instances that still run. */
  private checkOrphans(): void {
    const running = new Set<string>();
    for (const { engine, isClosing } of this.living()) if (!isClosing) running.add(engine.instanceId);
    for (const { table } of this.servers)
      for (const [key, { queue }] of table.rows)
        for (const { owner } of [...table.living(key), ...queue])
          if (running.has(instanceOf(owner))) this.oracle.violate(`orphans: ${owner} keeps ${key}, and nobody uses it`);
  }

  private checkRest(when: string, isClosed = false): void {
    if (this.oracle.violation !== undefined) return;
    for (const { name, table } of this.servers)
      for (const key of table.rows.keys())
        if (table.living(key).length > 0) this.oracle.violate(`quiescence: ${when} ${name} keeps ${key} locked`);
    for (const [nth, { engine, machine, store, isClosing }] of this.processes.entries()) {
      if (!machine.alive) continue;
      const left = leftoversOf(engine, machine, store, isClosed || isClosing);
      if (left.length > 0) this.oracle.violate(`quiescence: ${when} p${nth + 1} has ${left.join(', ')}`);
    }
  }

  private indexOf(key: string): number {
    return this.plan.servers.length === 1 ? 0 : KEYS.indexOf(key) >> 1;
  }

  private start(nth: number): Process {
    const { plan, timeline, servers, oracle } = this;
    const { requestTimeoutMs, lockDelayMs, strict, network, seed } = plan;
    const machine = new Machine(timeline, plan.processes[nth], seed + SPREAD * (nth + 1));
    const links = servers.map((server, at) => {
      const isOnly = servers.length === 1;
      const concerns = isOnly ? undefined : (key: string) => this.indexOf(key) === at;
      const name = isOnly ? undefined : server.name;
      const own = seed + SPREAD * (nth + 1) + at + 7;
      return new Link(machine, server, name, network, requestTimeoutMs, concerns, oracle, own);
    });
    const store = new LinkStore(links, (key) => this.indexOf(key));
    const { store: wrap = (unchanged) => unchanged } = this.options;
    const engine = new LockEngine({
      store: wrap(store, () => machine.now()),
      clock: machine,
      passing: passingLimitsOf(strict ? 'strict' : 'throughput'),
      instance: `p${nth + 1}`,
      identity: `p${nth + 1}`,
      requestTimeoutMs,
      lockDelayMs,
      checkTtl: () => undefined,
      warn: (message) => this.tell(`p${nth + 1} warns: ${message}`),
    });
    if (plan.mostInFlight !== undefined) limitRequests(engine, plan.mostInFlight);
    return { machine, store, engine, isClosing: false };
  }

  private tell(what: string): void {
    if (this.traces) this.trace.push(`${this.timeline.now().toFixed(3).padStart(10)} ${what}`);
  }

  // The callers.

  private enter({ process: nth, steps }: CallerPlan, name: string): void {
    const process = this.processes[nth];
    this.callersLeft += 1;
    const run = async (): Promise<void> => {
      for (const [at, step] of steps.entries()) {
        await pause(process, step.pauseMs);
        if (step.kind === 'acquire') await this.acquire(process, step, `${name}.${at + 1}`);
        else await this.force(process, KEYS[step.keys[0]], `${name}.${at + 1}`);
      }
    };
    let hasEnded = false;
    const onEnd = (error?: unknown): void => {
      if (!hasEnded) this.callersLeft -= 1;
      hasEnded = true;
      if (error !== undefined) this.oracle.violate(`errors: ${name} failed: ${inspect(error)}`);
    };
    this.timeline.schedule(0, () => process.machine.post(() => void run().then(() => onEnd(), onEnd)));
    process.machine.onCrash(onEnd);
  }

  private async acquire(process: Process, step: AcquireStep, name: string): Promise<void> {
    const { machine, engine } = process;
    const { abortAfterMs, keys } = step;
    const controller = abortAfterMs === undefined ? undefined : new AbortController();
    const timer = controller && machine.schedule(abortAfterMs as number, () => controller.abort(new Error('left')));
    const call: Call = {
      name,
      step,
      machine,
      instanceId: engine.instanceId,
      isClosing: () => process.isClosing,
      signal: controller?.signal,
      calledAt: this.timeline.now(),
      enteredAt: machine.now(),
      othersSince: this.oracle.awaitedSince(engine.instanceId, keys),
      queuedAt: Infinity,
    };
    this.oracle.pending.add(call);
    this.tell(`${name} acquires ${keys.map((key) => KEYS[key]).join(' ')} (${step.mode}, waitMs ${step.waitMs})`);
    let hold: Hold;
    try {
      hold = await ask(engine, step, controller?.signal);
    } catch (error) {
      timer?.cancel();
      this.tell(`${name} is refused: ${String(error)}`);
      return this.oracle.refused(call, error);
    }
    timer?.cancel();
    this.tell(`${name} has ${hold.locks.map(({ key, grant }) => `${key} by ${grant.owner} ${grant.token}`).join(' ')}`);
    this.oracle.granted(call, hold.locks);
    await this.work(process, call, hold);
  }

  private async work(process: Process, call: Call, hold: Hold): Promise<void> {
    const { step, name } = call;
    const { workMs, extendTo, nests } = step;
    const inside = async (): Promise<void> => {
      await pause(process, workMs / 2);
      if (nests) await this.nest(process, step, hold);
      if (extendTo !== undefined) for (const lock of hold.locks) await lock.extend(extendTo).catch(ignoreLoss);
      await pause(process, workMs / 2);
    };
    if (nests) await runUnder(hold, 'ignore', inside);
    else {
      await inside();
      this.tell(`${name} releases`);
      await hold.release().catch(ignoreLoss);
    }
    this.tell(`${name} has released`);
  }

  /** Acquires a lock of the caller again. It is a nested hold, if the caller still has it. */
  private async nest({ engine }: Process, step: AcquireStep, { locks: [outer] }: Hold): Promise<void> {
    if (!outer.held) return;
    const { keys, mode, ttlMs } = step;
    try {
      const inner = await ask(engine, { ...step, keys: [keys[0]], mode, ttlMs, waitMs: 0 }, undefined);
      await inner.release();
    } catch (error) {
      if (outer.held) this.oracle.violate(`errors: a nested hold of ${outer.key} got ${String(error)}`);
    }
  }

  private async force({ engine }: Process, key: string, name: string): Promise<void> {
    this.tell(`${name} releases ${key} by force`);
    const released = await engine.forceRelease({ resource: key, key }, 10_000).catch(ignoreLoss);
    this.tell(`${name} has released ${key} by force: ${String(released)}`);
  }

  // The faults.

  private happen(fault: Fault): void {
    const { timeline } = this;
    const { forMs } = fault;
    const where = [
      'process' in fault ? `p${fault.process + 1}` : undefined,
      'server' in fault ? `s${fault.server + 1}` : undefined,
    ];
    this.tell(`FAULT ${fault.kind} of ${where.filter(Boolean).join(' to ')}, ${forMs} ms`);
    const later = (task: () => void): void => void timeline.schedule(forMs, task);
    const process = 'process' in fault ? this.processes[fault.process] : undefined;
    const server = 'server' in fault ? this.servers[fault.server] : undefined;
    const links = [...this.living()].flatMap(({ store }) => ('server' in fault ? [store.links[fault.server]] : []));
    if (process !== undefined && !process.machine.alive) return;
    if ('process' in fault && 'server' in fault) {
      const link = (process as Process).store.links[fault.server];
      if (fault.kind === 'reset') link.cut(forMs);
      else if (fault.kind === 'stall') link.stalledUntil = Math.max(link.stalledUntil, timeline.now() + forMs);
      else if (fault.kind === 'no subscription') link.cutSubscription(forMs);
      else if (fault.kind === 'lost messages') {
        link.losesMessages = true;
        later(() => (link.losesMessages = false));
      } else {
        link.isHalfOpen = true;
        later(() => {
          link.isHalfOpen = false;
          link.cutSubscription(1);
        });
      }
    } else if (process !== undefined) this.happenTo(process, fault, later);
    else if (server !== undefined) this.happenToServer(server, links, fault, later);
  }

  private happenTo(process: Process, { kind, forMs }: Fault, later: (task: () => void) => void): void {
    const { machine, store, engine } = process;
    if (kind === 'pause') {
      machine.pause();
      later(() => machine.resume());
    } else if (kind === 'crash') {
      machine.crash();
      for (const link of store.links) link.abandon(forMs);
    } else if (kind === 'wall clock') machine.setWallClock(forMs);
    else if (kind === 'forged') {
      for (const key of KEYS) store.linkOf(key).forge(key, forMs % 2 === 0 ? 'handoff' : 'forced');
    } else
      machine.post(() => {
        process.isClosing = true;
        void engine.settle(forMs);
        later(() => machine.post(() => void engine.close(forMs)));
      });
  }

  private happenToServer(
    server: Server,
    links: readonly Link[],
    fault: Fault,
    later: (task: () => void) => void,
  ): void {
    const { kind, forMs } = fault;
    const until = this.timeline.now() + forMs;
    if (kind === 'server pause') for (const link of links) link.stalledUntil = Math.max(link.stalledUntil, until);
    else if (kind === 'server clock') server.setClock(forMs);
    else if (kind === 'flush') server.lose(Infinity);
    else {
      server.stop();
      for (const link of links) link.cut(1);
      later(() => {
        server.isUp = true;
        if (kind === 'restart without data') server.lose(Infinity);
        if (kind === 'failover' && 'lagMs' in fault) server.lose(fault.lagMs + forMs);
      });
    }
  }
}

/**
 * Returns whether a request may run after its connection has ended. It then keeps its lock or its place until its lease
 * is over, or until its turn.
 */
function mayStray({ faults }: Plan): boolean {
  return faults.some(({ kind }) => kind === 'reset' || kind.startsWith('restart') || kind === 'failover');
}

/** Lets an engine have fewer requests without a reply than 1,000. */
function limitRequests(engine: LockEngine, most: number): void {
  const { admission } = Reflect.get(engine.lines, 'deps') as { readonly admission: object };
  if (engine.store.serverOf === undefined) Reflect.set(admission, 'most', most);
}

function pause({ machine }: Process, forMs: number): Promise<void> {
  return new Promise((resolve) => machine.schedule(forMs, resolve));
}

function ask(engine: LockEngine, step: AcquireStep, signal: AbortSignal | undefined): Promise<Hold> {
  const targets = step.keys.map((key) => ({ resource: KEYS[key], key: KEYS[key] }));
  const { mode, waitMs, ttlMs, minHoldMs, maxHoldMs, unavailableAfterMs, maxWaiting } = step;
  const options: AcquireOptions = {
    mode,
    waitMs,
    ttlMs,
    minHoldMs,
    maxHoldMs,
    unavailableAfterMs,
    signal,
    ...(maxWaiting === undefined ? {} : { maxWaiting }),
  };
  return targets.length > 1 ? engine.acquireAll(targets, options) : engine.acquire(targets[0], options);
}

/** A lock that is lost, or a server that sends no reply, is not what a caller has to handle here. */
function ignoreLoss(error: unknown): void {
  if (!(error instanceof LockLostError) && !(error instanceof LockUnavailableError)) throw error;
}
