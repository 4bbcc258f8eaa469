import type { AcquireLoop } from '../../lib/core/acquire/acquire-loop.js';
import type { LocalLock, LocalLockDeps } from '../../lib/core/acquire/local-lock.js';
import { LocalLocks } from '../../lib/core/acquire/local-locks.js';
import type { Grant } from '../../lib/core/lease/grant.js';
import type { AcquireReply, AcquireRequest, LockMode, LockStore } from '../../lib/core/store/lock-store.js';
import { StoreHealth } from '../../lib/core/store/store-health.js';
import type { PassingLimits } from '../../lib/core/acquire/local-handoff.js';
import { callerOf, type CallerSignal } from './caller.js';
import { ModelClock, type Time } from './model-clock.js';
import { ModelHold } from './model-hold.js';
import { ModelReleaser } from './model-releaser.js';
import { Line, type Request } from './network.js';
import { KEY, REQUEST_TIMEOUT_MS, type Scenario } from './scenario.js';

/** Both are dear to make: most steps touch one process only. */
export interface ProcessNotes {
  readonly written?: object;
  readonly goBack?: () => void;
}

const NOTHING_NOTED: ProcessNotes = Object.freeze({});

/**
 * One process: the library's own gates and contenders, around them what its engine is, and the line to the server. Nothing
 * in it waits for a promise, so that a step is over when its call returns.
 */
export class Process implements LocalLockDeps {
  readonly line = new Line();
  readonly clock: ModelClock;
  readonly releaser: ModelReleaser;
  readonly health = new StoreHealth(() => undefined);
  readonly passing: PassingLimits;
  readonly requestTimeoutMs = REQUEST_TIMEOUT_MS;
  readonly store: Pick<LockStore, 'acquire' | 'capabilities'> = {
    capabilities: {
      queue: true,
      fencing: true,
      idempotentAcquire: true,
      modes: ['exclusive', 'shared', 'permits'],
      resolutionMs: 1,
    },
    acquire: (request) => this.ask(request),
  };
  readonly gates: LocalLocks = new LocalLocks(this);

  readonly instanceId: string;
  readonly mode: LockMode;
  alive = true;
  hold: ModelHold | undefined;
  /** How many callers have yet to come. */
  callersLeft: number;
  callers: CallerSignal[] = [];
  asks = 0;
  /** Whether the age of a hand-off can be told: not between the end of a connection and the next answer. */
  knowsServerTime = true;
  /** What was noted of its present state, until it changes. */
  notes: ProcessNotes = NOTHING_NOTED;

  constructor(
    index: number,
    time: Time,
    private readonly scenario: Scenario,
    private readonly begun: (grant: Grant) => void,
  ) {
    this.instanceId = `p${index + 1}`;
    this.mode = scenario.modes[index] ?? 'exclusive';
    this.clock = new ModelClock(time);
    this.passing = { maxLocalPasses: scenario.maxLocalPasses, maxLocalHoldMs: 50 };
    const { maxLocalPasses, variant } = scenario;
    this.releaser = new ModelReleaser(
      this.line,
      this.clock,
      maxLocalPasses + 1,
      REQUEST_TIMEOUT_MS,
      variant?.givesUpSilently,
    );
    this.callersLeft = scenario.acquisitions;
  }

  get gate(): LocalLock | undefined {
    const kept = this.mode === 'exclusive' ? 'alone' : 'shared';
    const gates = (Reflect.get(this.gates, kept) as Map<string, LocalLock | Set<LocalLock>>).get(KEY);
    return gates instanceof Set ? [...gates][0] : gates;
  }

  get contender(): AcquireLoop | undefined {
    return this.gate && (Reflect.get(this.gate, 'loop') as AcquireLoop);
  }

  /** A caller comes, and waits as long as it takes. */
  enter(): void {
    const caller = callerOf(this.scenario.leaseMs, this.mode);
    this.callersLeft -= 1;
    this.callers.push(caller.signal);
    this.gates.acquire({ resource: KEY, key: KEY }, caller.terms, this.clock.now(), false).catch(() => undefined);
  }

  /** The first of the callers that wait. */
  get waiting(): CallerSignal | undefined {
    return this.callers.find(({ leave }) => leave !== undefined);
  }

  /** The work under the lock is done. */
  endHold(): void {
    const { hold } = this;
    hold?.grant.end();
    this.letGo(hold);
  }

  hear(): void {
    this.hearAgain();
    this.line.messages.shift();
  }

  /** Hears the first message and leaves it where it was. */
  hearAgain(): void {
    const [{ since, granted, ...handoff }] = this.line.messages;
    const now = this.clock.now();
    const grantedAt = this.scenario.variant?.grantedAt?.(since, now) ?? since;
    this.gates.onHandoff({
      keys: [KEY],
      ...handoff,
      grantedAt: this.knowsServerTime && granted ? grantedAt : undefined,
    });
  }

  subscribe(): void {
    this.line.subscription = 'heard';
    this.gates.onSubscribed();
  }

  /** The command connection has ended, and another is open; answers what was on its way. */
  reset(): Request[] {
    const left = this.line.cut();
    this.knowsServerTime = false;
    this.releaser.disconnected();
    this.gates.onDisconnected();
    this.hold?.disconnected();
    return left;
  }

  /** It is gone, at once; answers what was on its way. */
  crash(): Request[] {
    this.alive = false;
    this.hold = undefined;
    this.callersLeft = 0;
    this.callers = [];
    this.clock.alarms = [];
    this.line.messages = [];
    this.releaser.crash();
    const gate = this.gate;
    if (gate !== undefined) this.gates.forget(gate);
    return this.line.cut();
  }

  nextOwner(gate: LocalLock): string {
    this.asks += 1;
    return this.gates.register(gate, this.scenario.variant?.nextOwner?.(this) ?? `${this.instanceId}:${this.asks}`);
  }

  granted(grant: Grant): void {
    this.begun(grant);
    this.hold = new ModelHold(grant, this.line, this.clock, (hold) => this.lost(hold));
  }

  forget(gate: LocalLock): void {
    this.gates.forget(gate);
  }

  /** It is about to change, or the time around it. */
  touch(): void {
    this.notes = NOTHING_NOTED;
  }

  note(notes: ProcessNotes): void {
    this.notes = Object.freeze({ ...this.notes, ...notes });
  }

  /** What a broken variant does behind each step. */
  hooked(): void {
    this.scenario.variant?.afterStep?.(this);
  }

  private lost(hold: ModelHold): void {
    hold.grant.lose('its lease ran out', this.clock.now());
    this.letGo(hold);
  }

  private letGo(hold: ModelHold | undefined): void {
    if (hold === undefined) return;
    hold.end();
    // First, since the end of one grant may be the begin of the next.
    this.hold = undefined;
    void this.gate?.end(hold.grant);
  }

  private ask(body: AcquireRequest): Promise<AcquireReply> {
    const queue = body.queue && this.line.subscription !== 'gone';
    // The contender only calls `then`, once, when its state is set: so it is called back in the step that delivers.
    const then = (answered: (reply: AcquireReply) => void): void => {
      const takeIn = (reply: AcquireReply): void => {
        this.knowsServerTime = true;
        answered(reply);
      };
      this.line.requests.push({ verb: 'acquire', body: { ...body, queue }, answered: takeIn, asker: this.currentAsk });
    };
    // oxlint-disable-next-line unicorn/no-thenable -- it is one, and nobody awaits it
    return { then } as unknown as Promise<AcquireReply>;
  }

  /** The contender's own notes on the ask that it is sending: part of its state, while an answer may come. */
  private get currentAsk(): unknown {
    return (Reflect.get(this.contender as AcquireLoop, 'state') as { ask?: unknown }).ask;
  }
}
