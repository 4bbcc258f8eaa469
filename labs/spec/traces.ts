// What happens in a run of the explorer, as steps that `accept.qnt` checks. Each key has a trace of its own.
import { instanceOf } from '../../lib/core/store/instance-id.js';
import { KeyQueue } from '../../lib/engine/key-queue.js';
import type { LockMode } from '../../lib/stores/contract.js';
import type { LockTable, TableReply } from '../../lib/stores/memory/lock-table.js';
import { TOKENS } from '../../lib/stores/memory/lock-table.js';
import type { Conditions } from '../../test/support/explorer/conditions.js';
import { explore, type Explored, type Recorder } from '../../test/support/explorer/explore.js';
import type { Sent, WireEvent } from '../../test/support/explorer/wire.js';

/** The steps of `accept.qnt`, by their numbers. */
const STEPS = [
  '', 'asks', 'extends', 'releases', 'runs', 'reads', 'fails', 'refuses', 'resends', 'losesRequest', 'receives',
  'works', 'disconnects', 'listens', 'dies', 'forces', 'replicates', 'failsOver', 'elapses',
] as const; // prettier-ignore
const ANSWERS = ['granted', 'held', 'permits-mismatch', 'renewed', 'lost', 'released', 'nothing'];

export type StepName = (typeof STEPS)[number];
/** The number of a step, and its arguments. */
export type Step = readonly number[];
export type Trace = readonly Step[];

export const nameOf = ([number]: Step): StepName => STEPS[number];

/** Below all tokens of the explorer. */
const FIRST_TOKEN = Date.UTC(2026, 0, 1) * 1_000 - 1_000;

type Answer = [answer: string, token?: number, rest?: number, queued?: boolean, ahead?: number];

/** A request about one lock. */
interface Flight {
  readonly trace: KeyTrace;
  readonly id: number;
  readonly owner: string;
  /** The connections that it was sent on, and that have ended without it. */
  lostOn: number[];
}

/** The steps of one key. */
class KeyTrace {
  readonly steps: Step[] = [];
  /** How many requests were sent. */
  sent = 0;
  private at = 0;

  constructor(private readonly now: () => number) {}

  add(name: StepName, ...args: readonly number[]): void {
    const now = ticks(this.now());
    if (now > this.at) this.steps.push([STEPS.indexOf('elapses'), now - this.at]);
    this.at = now;
    this.steps.push([STEPS.indexOf(name), ...args]);
  }
}

/** Records what the instances, the server and the network do. */
class TraceRecorder implements Recorder {
  readonly traces = new Map<string, KeyTrace>();
  private run!: Explored;
  /** The requests that travel together. */
  private readonly flights = new Map<object, readonly Flight[]>();
  /** What each instance has sent, and not read. */
  private readonly unread: Set<object>[] = [];
  private readonly connections: number[] = [];
  private running: { readonly flight: object; readonly connection: number } | undefined = undefined;
  private woken: string[] = [];

  begins(run: Explored): void {
    this.run = run;
    for (const key of run.keys) this.traces.set(key, new KeyTrace(() => run.clock.now()));
    run.instances.forEach(({ wire }, i) => {
      this.unread[i] = new Set();
      this.connections[i] = 1;
      wire.onEvent = (event) => this.onEvent(i, event);
    });
    this.watch(run.table);
  }

  replicates(): void {
    this.addToAll('replicates');
  }

  failsOver(): void {
    this.addToAll('failsOver');
  }

  works(key: string, owner: string, mode: LockMode, token = 0): void {
    this.traces.get(key)?.add('works', ...this.ownerOf(owner, mode), token - FIRST_TOKEN);
  }

  // What a wire does.

  private onEvent(i: number, event: WireEvent): void {
    if (event.what === 'sends') this.onSent(i, event.flight, event.verb, event.requests);
    else if (event.what === 'runs') this.running = { flight: event.flight, connection: event.connection + 1 };
    else if (event.what === 'disconnects') this.onDisconnected(i, new Set(event.late));
    else if (event.what === 'listens') this.addToAll('listens', i + 1, Number(event.isOn));
    else if (event.what === 'closes') this.addToAll('dies', i + 1);
    else if (event.what === 'receives')
      this.traces.get(event.key)?.add('receives', ...this.ownerOf(event.owner, event.mode));
    else this.onFlight(i, event.what, event.flight);
  }

  private onSent(i: number, object: object, verb: string, requests: readonly Sent[]): void {
    const flights = requests.map((request): Flight => {
      const trace = this.traceOf(request.key);
      const owner = this.ownerOf(request.owner, request.mode);
      const id = trace.sent++;
      if (verb === 'extend' && 'leaseMs' in request) trace.add('extends', ...owner, ticks(request.leaseMs), id);
      else if ('wait' in request) {
        const { leaseMs, handoffMs, wait } = request;
        trace.add('asks', ...owner, ticks(leaseMs), ticks(handoffMs), Number(wait), id);
      } else if ('closedForMs' in request)
        trace.add('releases', ...owner, ticks(request.handoffMs), ticks(request.closedForMs), id);
      return { trace, id, owner: request.owner, lostOn: [] };
    });
    this.flights.set(object, flights);
    this.unread[i].add(object);
  }

  private onFlight(i: number, what: 'refuses' | 'reads' | 'fails' | 'resends', object: object): void {
    if (what === 'reads' || what === 'fails') this.unread[i].delete(object);
    for (const flight of this.flights.get(object) ?? []) {
      flight.trace.add(what, flight.id);
      // Until now it was not known whether it would be sent again.
      for (const connection of flight.lostOn) flight.trace.add('losesRequest', flight.id, connection);
      flight.lostOn = [];
    }
  }

  private onDisconnected(i: number, late: ReadonlySet<object>): void {
    this.addToAll('disconnects', i + 1);
    for (const object of this.unread[i])
      if (!late.has(object)) for (const flight of this.flights.get(object) ?? []) flight.lostOn.push(this.connections[i]);
    this.connections[i] += 1;
  }

  // What the server does.

  private watch(table: LockTable): void {
    const { acquire, release, extend, forceRelease } = table;
    const wake = table['deps'].wake;
    table['deps'].wake = (key, entry) => {
      this.woken.push(...this.ownerOf(entry.owner, entry.mode).map(String));
      wake(key, entry);
    };
    table.acquire = (key, entry, ...rest) => {
      return this.serve(key, entry.owner, () => acquire.call(table, key, entry, ...rest), (reply) => answerOf(reply));
    };
    table.release = (key, entry, ...rest) => {
      const answer = (wasHeld: boolean): Answer => [wasHeld ? 'released' : 'nothing'];
      return this.serve(key, entry.owner, () => release.call(table, key, entry, ...rest), answer);
    };
    table.extend = (key, entry, leaseMs) => {
      const answer = (isRenewed: boolean): Answer => [isRenewed ? 'renewed' : 'lost'];
      return this.serve(key, entry.owner, () => extend.call(table, key, entry, leaseMs), answer);
    };
    table.forceRelease = (key, handoffMs, ifToken) => {
      const clock = this.clock;
      this.woken = [];
      const isEnded = forceRelease.call(table, key, handoffMs, ifToken);
      if (isEnded) this.traceOf(key).add('forces', clock, ticks(handoffMs), ...this.serverOf(key));
      return isEnded;
    };
  }

  private serve<T>(key: string, owner: string, run: () => T, answer: (reply: T) => Answer): T {
    const { clock, running } = this;
    this.woken = [];
    const reply = run();
    if (running === undefined) throw new Error('a script runs without a request');
    const flight = this.flights.get(running.flight)?.find((each) => each.trace === this.traces.get(key) && each.owner === owner);
    if (flight === undefined) throw new Error(`the request of ${owner} was not sent`);
    const [kind, token = FIRST_TOKEN, rest = 0, queued = false, ahead = -1] = answer(reply);
    const told = [ANSWERS.indexOf(kind), token - FIRST_TOKEN, ticks(rest), Number(queued), ahead];
    flight.trace.add('runs', flight.id, running.connection, clock, ...told, ...this.serverOf(key));
    return reply;
  }

  /** The server's clock. Other keys have taken tokens, too, which counts as time. */
  private get clock(): number {
    const { table } = this.run;
    return Math.max(table['deps'].wallMicros(), table['lastToken'] + TOKENS) - FIRST_TOKEN;
  }

  /** Returns who was woken, who has the lock, and who is in the queue. See `seesServer`. */
  private serverOf(key: string): number[] {
    const row = this.run.table.rows.get(key);
    const holders = row === undefined ? [] : row.lock === undefined ? row.sharers : [row.lock];
    const queue = row?.queue ?? [];
    const woken = this.woken.map(Number);
    return [
      woken.length / 3,
      ...woken,
      holders.length,
      ...holders.flatMap(({ owner, mode, token, endsAt }) => {
        return [...this.ownerOf(owner, mode), Number(owner === ''), token - FIRST_TOKEN, ticks(endsAt)];
      }),
      queue.length,
      ...queue.flatMap(({ owner, mode }) => this.ownerOf(owner, mode)),
    ];
  }

  private traceOf(key: string): KeyTrace {
    const trace = this.traces.get(key);
    if (trace === undefined) throw new Error(`${key} has no trace`);
    return trace;
  }

  private ownerOf(owner: string, mode: LockMode): readonly [number, number, number] {
    const numbered = mode === 'exclusive' ? 0 : mode === 'shared' ? -1 : mode;
    const id = instanceOf(owner);
    const i = this.run.instances.findIndex(({ engine }) => engine.instanceId === id);
    return owner === '' ? [0, 0, numbered] : [i + 1, Number(owner.slice(id.length + 1)), numbered];
  }

  private addToAll(name: StepName, ...args: readonly number[]): void {
    for (const trace of this.traces.values()) trace.add(name, ...args);
  }
}

function answerOf(reply: TableReply): Answer {
  if (reply.status === 'granted') return ['granted', reply.token];
  if (reply.status === 'permits-mismatch') return [reply.status];
  return ['held', undefined, reply.remainingMs, reply.queued, reply.ahead ?? -1];
}

/** Converts milliseconds. */
function ticks(ms: number): number {
  return Math.round(ms * 1_000);
}

/** Runs a seed of the explorer. Returns the trace of each of its keys. */
export async function record(seed: number, given?: Partial<Conditions>): Promise<readonly Trace[]> {
  const recorder = new TraceRecorder();
  const admit = KeyQueue.prototype['admit'];
  KeyQueue.prototype['admit'] = function (this: KeyQueue, waiter, lease, now) {
    recorder.works(this.key, lease.owner, lease.mode, lease.token);
    admit.call(this, waiter, lease, now);
  };
  try {
    await explore(seed, given, recorder);
  } finally {
    KeyQueue.prototype['admit'] = admit;
  }
  return [...recorder.traces.values()].map(({ steps }) => steps);
}
