// What happens in a run of the explorer, as steps that `accept.qnt` checks. Each key has a trace of its own.
import { instanceOf } from '../../lib/contract/instance-id.js';
import { KeyQueue } from '../../lib/engine/key-queue.js';
import type { LockMode } from '../../lib/contract/store.js';
import { type Entry, type LockTable, type TableReply, TOKENS } from '../../lib/stores/memory/lock-table.js';
import type { Conditions } from '../../test/support/explorer/conditions.js';
import { explore, type Explored, type Recorder } from '../../test/support/explorer/explore.js';
import type { Sent, WireEvent } from '../../test/support/explorer/wire.js';

/** The steps of `accept.qnt`, by their numbers. */
const STEPS = [
  '', 'asks', 'extends', 'releases', 'runs', 'reads', 'fails', 'refuses', 'resends', 'losesRequest', 'receives',
  'works', 'disconnects', 'listens', 'dies', 'forces', 'replicates', 'failsOver', 'elapses',
] as const; // prettier-ignore
const ANSWERS = ['granted', 'held', 'permits-mismatch', 'renewed', 'lost', 'released', 'nothing'];

type StepName = (typeof STEPS)[number];
/** The number of a step, and its arguments. */
export type Step = readonly number[];
export type Trace = readonly Step[];

export function nameOf([number]: Step): StepName {
  return STEPS[number];
}

/** Below all tokens of the explorer. */
const FIRST_TOKEN = Date.UTC(2026, 0, 1) * 1_000 - 1_000;

type Answer = [answer: string, token?: number, rest?: number, queued?: boolean, ahead?: number];

/** A request about one lock. */
interface Flight {
  readonly trace: KeyTrace;
  readonly id: number;
  readonly owner: string;
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
  /** What each instance has sent and not read, the last connection that it was sent on, and those that have lost it. */
  private readonly unread: Map<object, { readonly sentOn: number; readonly lostOn: number[] }>[] = [];
  private readonly connections: number[] = [];
  private running: { readonly flight: object; readonly connection: number } | undefined = undefined;
  private woken: Entry[] = [];

  begins(run: Explored): void {
    this.run = run;
    for (const key of run.keys) this.traces.set(key, new KeyTrace(() => run.clock.now()));
    run.instances.forEach(({ wire }, i) => {
      this.unread[i] = new Map();
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

  works(key: string, { owner, mode }: Entry, token = 0): void {
    this.traceOf(key).add('works', ...this.ownerOf(owner, mode), token - FIRST_TOKEN);
  }

  private onEvent(i: number, event: WireEvent): void {
    if (event.what === 'sends') {
      this.flights.set(
        event.flight,
        event.requests.map((request) => this.onSent(request)),
      );
      this.unread[i].set(event.flight, { sentOn: this.connections[i], lostOn: [] });
    } else if (event.what === 'runs') this.running = { flight: event.flight, connection: event.connection + 1 };
    else if (event.what === 'disconnects') {
      this.addToAll('disconnects', i + 1);
      for (const [flight, { sentOn, lostOn }] of this.unread[i])
        if (sentOn === this.connections[i] && !event.late.includes(flight)) lostOn.push(sentOn);
      this.connections[i] += 1;
    } else if (event.what === 'listens') this.addToAll('listens', i + 1, Number(event.isOn));
    else if (event.what === 'closes') this.addToAll('dies', i + 1);
    else if (event.what === 'receives')
      this.traceOf(event.key).add('receives', ...this.ownerOf(event.owner, event.mode));
    else this.onFlight(i, event.what, event.flight);
  }

  private onSent(request: Sent): Flight {
    const { key, owner, mode } = request;
    const trace = this.traceOf(key);
    const id = trace.sent;
    trace.sent += 1;
    const who = this.ownerOf(owner, mode);
    if ('wait' in request)
      trace.add('asks', ...who, ticks(request.leaseMs), ticks(request.handoffMs), Number(request.wait), id);
    else if ('closedForMs' in request)
      trace.add('releases', ...who, ticks(request.handoffMs), ticks(request.closedForMs), id);
    else trace.add('extends', ...who, ticks(request.leaseMs), id);
    return { trace, id, owner };
  }

  private onFlight(i: number, what: StepName, object: object): void {
    const unread = this.unread[i];
    for (const { trace, id } of this.flights.get(object) ?? []) {
      trace.add(what, id);
      // Until now it was not known whether it would be sent again.
      for (const connection of unread.get(object)?.lostOn ?? []) trace.add('losesRequest', id, connection);
    }
    if (what === 'resends') unread.set(object, { sentOn: this.connections[i], lostOn: [] });
    else unread.delete(object);
  }

  /** Adds what the server does. */
  private watch(table: LockTable): void {
    const wake = table['deps'].wake.bind(table['deps']);
    table['deps'].wake = (key, entry) => {
      this.woken.push(entry);
      wake(key, entry);
    };
    const acquire = table.acquire.bind(table);
    table.acquire = (...args) => this.serve(args[0], args[1], () => acquire(...args), answerOf);
    const release = table.release.bind(table);
    table.release = (...args) => {
      return this.serve(args[0], args[1], () => release(...args), (was) => [was ? 'released' : 'nothing']); // prettier-ignore
    };
    const extend = table.extend.bind(table);
    table.extend = (...args) => {
      return this.serve(
        args[0],
        args[1],
        () => extend(...args),
        (is) => [is ? 'renewed' : 'lost'],
      );
    };
    const force = table.forceRelease.bind(table);
    table.forceRelease = (key, handoffMs, ifToken) => {
      const { clock } = this;
      this.woken = [];
      const isEnded = force(key, handoffMs, ifToken);
      if (isEnded) this.traceOf(key).add('forces', clock, ticks(handoffMs), ...this.serverOf(key));
      return isEnded;
    };
  }

  private serve<T>(key: string, { owner }: Entry, run: () => T, answer: (reply: T) => Answer): T {
    const { clock, running = { flight: {}, connection: 0 } } = this;
    this.woken = [];
    const reply = run();
    const trace = this.traceOf(key);
    const flight = this.flights.get(running.flight)?.find((each) => each.trace === trace && each.owner === owner);
    if (flight === undefined) throw new Error(`the request of ${owner} was not sent`);
    const [kind, token = FIRST_TOKEN, rest = 0, queued = false, ahead = -1] = answer(reply);
    const told = [ANSWERS.indexOf(kind), token - FIRST_TOKEN, ticks(rest), Number(queued), ahead];
    trace.add('runs', flight.id, running.connection, clock, ...told, ...this.serverOf(key));
    return reply;
  }

  /** The server's clock. Other keys have taken tokens, too, which counts as time. */
  private get clock(): number {
    const { table } = this.run;
    return Math.max(table['deps'].wallMicros(), table['lastToken'] + TOKENS) - FIRST_TOKEN;
  }

  /** Returns who was woken, who has the lock, and who is in the queue. See `seesServer`. */
  private serverOf(key: string): readonly number[] {
    const { lock, sharers = [], queue = [] } = this.run.table.rows.get(key) ?? { lock: undefined };
    const holders = lock === undefined ? sharers : [lock];
    const held = holders.flatMap(({ owner, mode, token, endsAt }) => {
      return [...this.ownerOf(owner, mode), Number(owner === ''), token - FIRST_TOKEN, ticks(endsAt)];
    });
    return [...this.listOf(this.woken), holders.length, ...held, ...this.listOf(queue)];
  }

  private listOf(entries: readonly Entry[]): readonly number[] {
    return [entries.length, ...entries.flatMap(({ owner, mode }) => this.ownerOf(owner, mode))];
  }

  private ownerOf(owner: string, mode: LockMode): readonly number[] {
    const numbered = mode === 'exclusive' ? 0 : mode === 'shared' ? -1 : mode;
    const id = instanceOf(owner);
    const i = this.run.instances.findIndex(({ engine }) => engine.instanceId === id);
    return owner === '' ? [0, 0, numbered] : [i + 1, Number(owner.slice(id.length + 1)), numbered];
  }

  private traceOf(key: string): KeyTrace {
    return this.traces.get(key) as KeyTrace;
  }

  private addToAll(name: StepName, ...args: readonly number[]): void {
    for (const trace of this.traces.values()) trace.add(name, ...args);
  }
}

function answerOf(reply: TableReply): Answer {
  if (reply.status === 'granted') return ['granted', reply.token];
  if (reply.status === 'permits-mismatch') return [reply.status];
  return ['held', undefined, reply.remainingMs, reply.queued, reply.ahead];
}

/** Converts milliseconds. */
function ticks(ms: number): number {
  return Math.round(ms * 1_000);
}

/** Runs a seed of the explorer. Returns the trace of each of its keys. */
export async function record(seed: number, given?: Partial<Conditions>): Promise<readonly Trace[]> {
  const recorder = new TraceRecorder();
  const { prototype } = KeyQueue;
  const admit = prototype['admit'];
  prototype['admit'] = function (this: KeyQueue, waiter, lease, now) {
    recorder.works(this.key, lease, lease.token);
    admit.call(this, waiter, lease, now);
  };
  try {
    await explore(seed, given, recorder);
  } finally {
    prototype['admit'] = admit;
  }
  return [...recorder.traces.values()].map(({ steps }) => steps);
}
