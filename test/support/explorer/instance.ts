import { AsyncResource } from 'node:async_hooks';
import type { Clock, Timer } from '../../../lib/clock/clock.js';
import type { LockEngine } from '../../../lib/engine/lock-engine.js';
import { LockRuntime } from '../../../lib/lock-runtime.js';
import type { MemoryStore } from '../../../lib/stores/memory/memory.store.js';
import { silent } from '../silent-logger.js';
import type { Referee } from './referee.js';
import { Wire } from './wire.js';

/** After which time without a reply callers are refused. */
export const REQUEST_TIMEOUT_MS = 100;

/**
 * The clock of one process. While its event loop is blocked, nothing of it runs. Then its timers run, and then it reads
 * what has arrived.
 */
export class ProcessClock implements Clock {
  private blockedUntil = -Infinity;
  private timers: (() => void)[] = [];
  private readonly arrivals: (() => void)[] = [];

  constructor(private readonly shared: Clock) {}

  now(): number {
    return this.shared.now();
  }

  wallTime(): number {
    return this.shared.wallTime();
  }

  random(): number {
    return this.shared.random();
  }

  schedule(delayMs: number, task: () => void): Timer {
    let isCancelled = false;
    const run = (): void => {
      if (isCancelled) return;
      if (this.isBlocked) this.timers.push(AsyncResource.bind(run));
      else task();
    };
    const timer = this.shared.schedule(delayMs, run);
    return {
      cancel: () => {
        isCancelled = true;
        timer.cancel();
      },
    };
  }

  get isBlocked(): boolean {
    return this.now() < this.blockedUntil;
  }

  /** Blocks the event loop. Without an end, the process is dead. */
  block(forMs: number): void {
    this.blockedUntil = Math.max(this.blockedUntil, this.now() + forMs);
    if (forMs !== Infinity) this.shared.schedule(forMs, () => this.resume());
  }

  /** Runs what a reply or a message causes, when it is read. Behind what has arrived before and is not read yet. */
  read(task: () => void): void {
    if (this.isBlocked || this.arrivals.length > 0) this.arrivals.push(task);
    else task();
  }

  private resume(): void {
    if (this.isBlocked) return;
    const { timers } = this;
    this.timers = [];
    for (const task of timers) this.shared.schedule(0, task);
    this.readRest();
  }

  private readRest(): void {
    if (this.arrivals.length === 0) return;
    this.shared.schedule(0, () => {
      // It reads later if the event loop is blocked again.
      if (this.isBlocked) return;
      this.arrivals.shift()?.();
      this.readRest();
    });
  }
}

/** One process: an engine, its connection and its clock. */
export class Instance {
  readonly clock: ProcessClock;
  readonly wire: Wire;
  readonly runtime: LockRuntime;
  /** How many of its calls have not ended. */
  calls = 0;
  isDead = false;
  private closesAt = Infinity;

  constructor(memory: MemoryStore, shared: Clock, referee: Referee, isStrict: boolean, hasQueue = true) {
    this.clock = new ProcessClock(shared);
    const wire = (this.wire = new Wire(memory, shared, this.clock, referee, hasQueue));
    const fairness = isStrict ? 'strict' : 'throughput';
    const options = { store: () => wire, fairness, shutdownGraceMs: 0, checks: 'off' } as const;
    const internals = { clock: this.clock, requestTimeoutMs: REQUEST_TIMEOUT_MS, logger: silent };
    this.runtime = LockRuntime.start(options, undefined, internals);
    this.wire.isAwaited = (key, mode) => {
      const first = this.engine.waiting(key).at(0);
      return first?.mode === mode && first.isPatient;
    };
    this.wire.isGivenUp = () => this.clock.now() >= this.closesAt;
  }

  get service(): LockRuntime['service'] {
    return this.runtime.service;
  }

  get engine(): LockEngine {
    return this.service.engine;
  }

  get isClosing(): boolean {
    return this.closesAt < Infinity;
  }

  get mayCall(): boolean {
    return !this.isDead && !this.isClosing && !this.clock.isBlocked;
  }

  /** The process ends without a word. What is on its way to the server arrives. */
  die(): void {
    this.isDead = true;
    this.clock.block(Infinity);
    void this.wire.close();
  }

  shutDown(): Promise<void> {
    this.closesAt = this.clock.now() + REQUEST_TIMEOUT_MS;
    return this.runtime.close();
  }
}
