import type { AcquireDeps } from '../../../lib/core/acquire/acquire-options.js';
import type { Attempt } from '../../../lib/core/acquire/attempt.js';
import type { AcquireLoop } from '../../../lib/core/acquire/acquire-loop.js';
import { Lines } from '../../../lib/core/acquire/lines.js';
import type { Grant, PassingLimits } from '../../../lib/core/lease/grant.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  LockMode,
  LockStore,
} from '../../../lib/core/store/lock-store.js';
import type { LimitRequest } from '../../../lib/core/time/timeout-pool.js';
import { StoreHealth } from '../../../lib/core/store/store-health.js';
import { callerOf, type CallerSignal } from './caller.js';
import { ModelClock, type Time } from './model-clock.js';
import { ModelHold } from './model-hold.js';
import { ModelReleaser } from './model-releaser.js';
import { Line, type Request } from './network.js';
import { KEY, REQUEST_TIMEOUT_MS, type Scenario } from './scenario.js';

/** Results that are kept because they are expensive, and most steps change one process only. */
export interface ProcessNotes {
  readonly written?: object;
  readonly goBack?: () => void;
}

/** The lease of a request that only asks, as in `lib/core/lease/force-checks.ts`. */
const CHECK_MS = 1;

const NOTHING_NOTED: ProcessNotes = Object.freeze({});

/**
 * One process: the library's own lines and acquire loops, what their engine gives them, and the line to the
 * server. No step waits for a promise, so a step is over when its call returns.
 */
export class Process implements AcquireDeps {
  readonly line = new Line();
  readonly clock: ModelClock;
  readonly releaser: ModelReleaser;
  readonly health = new StoreHealth({ warn: () => undefined, info: () => undefined }, () => 0);
  readonly passing: PassingLimits;
  readonly requestTimeoutMs = REQUEST_TIMEOUT_MS;
  readonly lockDelayMs = 0;
  readonly store: Pick<LockStore, 'acquire' | 'capabilities'> = {
    capabilities: {
      name: 'model',
      queue: true,
      fencing: true,
      idempotentAcquire: true,
      modes: ['exclusive', 'shared', 'permits'],
      resolutionMs: 1,
    },
    acquire: (request) => this.sendAcquire(request),
  };
  readonly limitRequest: LimitRequest = (_key, request) =>
    this.clock.schedule(REQUEST_TIMEOUT_MS, () => request.onTimeout());
  lines: Lines = new Lines(this);

  readonly instanceId: string;
  readonly mode: LockMode;
  alive = true;
  /** The holds of its callers, several if they share the lock, in the order in which they began. */
  holds: readonly ModelHold[] = [];
  /** How many callers have yet to arrive. */
  callersLeft: number;
  callers: CallerSignal[] = [];
  attempts = 0;
  /** The owners whose locks somebody has released by force. The process learns it by a message, or by a request. */
  forced: readonly string[] = [];
  /** An owner that has lost its lock by a message about a release by force, and not by that release. */
  wronglyLost: string | undefined;
  /** Whether the age of a handoff is known. It is not between the end of a connection and the next reply. */
  knowsServerTime = true;
  /** What was noted of its current state, until it changes. */
  notes: ProcessNotes = NOTHING_NOTED;

  constructor(
    index: number,
    time: Time,
    private readonly scenario: Scenario,
    private readonly onGranted: (grant: Grant) => void,
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

  /** The loops that request the key or wait for a last reply. */
  get loops(): readonly AcquireLoop[] {
    return this.lines.at(KEY).flatMap(({ loops }) => loops);
  }

  /** A caller arrives, and waits without limit. */
  enter(): void {
    const caller = callerOf(this.scenario.leaseMs, this.mode);
    this.callersLeft -= 1;
    this.callers.push(caller.signal);
    const target = { resource: KEY, key: KEY };
    this.lines.acquire(target, caller.options, this.clock.now(), false).catch(() => undefined);
  }

  /** The first of the callers that wait. */
  get waiting(): CallerSignal | undefined {
    return this.callers.find(({ leave }) => leave !== undefined);
  }

  /** The work under the lock is done. */
  endHold(hold: ModelHold): void {
    hold.grant.end();
    this.releaseHold(hold);
  }

  /** Receives the first message. */
  receive(): void {
    this.receiveCopy();
    this.line.messages.shift();
  }

  /** Receives the first message and keeps it, so that it arrives again. */
  receiveCopy(): void {
    const [message] = this.line.messages;
    if ('forced' in message) return this.onForceReleased();
    const { since, granted, ...handoff } = message;
    const now = this.clock.now();
    const grantedAt = this.scenario.variant?.grantedAt?.(since, now) ?? since;
    this.lines.onHandoff({
      keys: [KEY],
      ...handoff,
      grantedAt: this.knowsServerTime && granted ? grantedAt : undefined,
    });
  }

  subscribe(): void {
    this.line.subscription = 'open';
    this.lines.onSubscribed();
  }

  /** Replaces the command connection. Returns the requests that were on their way. */
  reset(): Request[] {
    const left = this.line.cut();
    this.knowsServerTime = false;
    this.releaser.onDisconnected();
    this.lines.onDisconnected();
    for (const hold of this.holds) hold.onDisconnected();
    return left;
  }

  /** Ends the process at once. Returns the requests that were on their way. */
  crash(): Request[] {
    this.alive = false;
    this.holds = [];
    this.callersLeft = 0;
    this.callers = [];
    this.clock.alarms = [];
    this.line.messages = [];
    this.releaser.crash();
    this.lines = new Lines(this);
    return this.line.cut();
  }

  nextOwner(): string {
    this.attempts += 1;
    return this.scenario.variant?.nextOwner?.(this) ?? `${this.instanceId}:${this.attempts}`;
  }

  watch(grant: Grant): undefined {
    this.onGranted(grant);
    const hold = new ModelHold(grant, this.line, this.clock, (lost) => this.onLost(lost));
    hold.start(this.holds);
    this.holds = [...this.holds, hold];
  }

  /** Drops the notes, because its state or the time is about to change. */
  touch(): void {
    this.notes = NOTHING_NOTED;
  }

  note(notes: ProcessNotes): void {
    this.notes = Object.freeze({ ...this.notes, ...notes });
  }

  /** Runs what a broken variant does after each step. */
  afterStep(): void {
    this.scenario.variant?.afterStep?.(this);
  }

  /** Does what the engine does: the lines know it first, then the server is asked for each owner. */
  private onForceReleased(): void {
    this.lines.onForceReleased(KEY);
    const owners = new Set(this.holds.map(({ grant }) => grant.owner));
    for (const owner of owners) {
      const onReply = (reply: ExtendReply): void => {
        if (reply === 'lost') this.loseByForce(owner);
      };
      if (this.scenario.variant?.trustsForced) this.loseByForce(owner);
      else {
        const body = { keys: [KEY], owner, mode: this.mode, leaseMs: CHECK_MS };
        this.line.requests.push({ verb: 'extend', body, onReply, sender: 'a check' });
      }
    }
  }

  private loseByForce(owner: string): void {
    for (const hold of this.holds.filter(({ grant }) => grant.owner === owner)) {
      if (hold.isBeforeDeadline && !this.forced.includes(owner)) this.wronglyLost = owner;
      this.onLost(hold);
    }
  }

  private onLost(hold: ModelHold): void {
    hold.grant.lose('its lease ran out', this.clock.now());
    this.releaseHold(hold);
  }

  private releaseHold(hold: ModelHold): void {
    hold.end();
    // Comes first: the end of one grant may be the start of the next.
    this.holds = this.holds.filter((one) => one !== hold);
    void hold.grant.ownership.end(hold.grant);
  }

  private sendAcquire(body: AcquireRequest): Promise<AcquireReply> {
    const queue = body.queue && this.line.subscription !== 'closed';
    // More tokens than there are callers would never be used up.
    const tokens = Math.min(body.tokens, this.passing.maxLocalPasses + 1);
    // The attempt calls `then` once, with the loop's state set. So `onReply` runs in the step that delivers the reply.
    const then = (answered: (reply: AcquireReply) => void): void => {
      const onReply = (reply: AcquireReply): void => {
        this.knowsServerTime = true;
        answered(reply);
      };
      this.line.requests.push({
        verb: 'acquire',
        body: { ...body, queue, tokens },
        onReply,
        sender: this.attemptOf(body.owner),
      });
    };
    // oxlint-disable-next-line unicorn/no-thenable -- it is one, and nobody awaits it
    return { then } as unknown as Promise<AcquireReply>;
  }

  /** The attempt that sends a request now. It is part of the state while a reply may arrive. */
  private attemptOf(owner: string): Attempt | undefined {
    return this.lines.attemptsAt(KEY).find((attempt) => attempt.owner === owner);
  }
}
