import { type EndedEvent, type GrantedEvent, lockChannels, type LostEvent, type RefusedEvent } from '../core/diagnostics.js';
import { messageOf } from '../core/errors.js';
import type { Clock } from '../core/time/clock.js';

/** The time that one bar of a plot stands for, and how many bars there are: five minutes. */
export const BUCKET_MS = 5_000;
export const BUCKETS = 60;
const MOST_LOST = 50;

/** A lock that a caller of this instance has lost. */
export interface LostLock {
  /** Rises with each lost lock. */
  readonly id: number;
  readonly resource: string;
  readonly heldMs: number;
  /** Why, if the event says it. */
  readonly reason: string | undefined;
  /** In milliseconds since 1970, by the clock of this machine. */
  readonly at: number;
}

/** Count, sum and longest of durations, in milliseconds. */
export type Durations = [count: number, sumMs: number, longestMs: number];

/** What happened in one interval. */
export interface Bucket {
  /** The start of the interval divided by its length. */
  readonly at: number;
  readonly waits: Durations;
  refused: number;
  readonly holds: Durations;
  /** How many locks were held and waited for at the end, as far as the board looked. Locks of all instances. */
  held: number | undefined;
  waiting: number | undefined;
}

/** Records what happens to the locks of one module instance. It needs the same memory for any number of events. */
export class BoardEvents {
  readonly lost: LostLock[] = [];
  /** How many locks were lost since the start. */
  lostCount = 0;
  private buckets: Bucket[] = [];
  private readonly handlers: readonly [channel: { subscribe: Subscribe; unsubscribe: Subscribe }, Handler][];

  /** @param instance the name of the module instance, as events have it. */
  constructor(
    private readonly instance: string,
    private readonly clock: Clock,
  ) {
    const handler = <E extends { instance: string }>(record: (event: E) => void): Handler => {
      return (event) => {
        if ((event as E).instance === this.instance) record(event as E);
      };
    };
    this.handlers = [
      [lockChannels.granted, handler<GrantedEvent>(({ waitedMs }) => this.onWaited(waitedMs, 0))],
      [lockChannels.refused, handler<RefusedEvent>(({ waitedMs }) => this.onWaited(waitedMs, 1))],
      [lockChannels.released, handler<EndedEvent>(({ heldMs }) => this.onEnded(heldMs))],
      [lockChannels.lost, handler<LostEvent>((event) => this.onLost(event))],
    ];
  }

  start(): void {
    for (const [channel, handler] of this.handlers) channel.subscribe(handler);
  }

  stop(): void {
    for (const [channel, handler] of this.handlers) channel.unsubscribe(handler);
  }

  /** Records how many locks a read has found. */
  onRead(held: number, waiting: number): void {
    Object.assign(this.bucket(), { held, waiting });
  }

  /** Returns the intervals of the last minutes in which something happened, oldest first. */
  recent(): readonly Bucket[] {
    const oldest = this.now() - BUCKETS;
    this.buckets = this.buckets.filter(({ at }) => at > oldest);
    return this.buckets;
  }

  private onWaited(waitedMs: number, refused: number): void {
    const bucket = this.bucket();
    add(bucket.waits, waitedMs);
    bucket.refused += refused;
  }

  private onEnded(heldMs: number): void {
    add(this.bucket().holds, heldMs);
  }

  private onLost(event: LostEvent): void {
    const { resource, heldMs } = event;
    this.onEnded(heldMs);
    this.lostCount += 1;
    const at = this.clock.wallTime();
    this.lost.unshift({ id: this.lostCount, resource, heldMs, reason: reasonOf(event), at });
    if (this.lost.length > MOST_LOST) this.lost.pop();
  }

  /** Returns the present interval. After the wall clock was set back, the last one goes on. */
  private bucket(): Bucket {
    const at = this.now();
    const last = this.buckets.at(-1);
    if (last !== undefined && last.at >= at) return last;
    if (this.buckets.length >= BUCKETS) this.buckets.shift();
    const bucket: Bucket = { at, waits: [0, 0, 0], refused: 0, holds: [0, 0, 0], held: undefined, waiting: undefined };
    this.buckets.push(bucket);
    return bucket;
  }

  private now(): number {
    return Math.floor(this.clock.wallTime() / BUCKET_MS);
  }
}

type Handler = (event: unknown) => void;
type Subscribe = (handler: Handler) => unknown;

function add(durations: Durations, ms: number): void {
  durations[0] += 1;
  durations[1] += ms;
  durations[2] = Math.max(durations[2], ms);
}

/** Returns why a lock was lost, without the words that every such message begins with. */
function reasonOf({ reason }: LostEvent): string | undefined {
  return reason && messageOf(reason).replace(/^The lock on .*? was lost after \d+ ms: /s, '');
}
