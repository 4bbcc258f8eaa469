import {
  type EndedEvent,
  type GrantedEvent,
  lockChannels,
  type LockEvent,
  type LostEvent,
  type RefusedEvent,
} from '../core/events/diagnostics.js';
import { messageOf } from '../core/errors.js';
import type { Clock } from '../core/time/clock.js';

/** What a bar of a plot stands for, in milliseconds, and how many bars there are: five minutes. */
export const BUCKET_MS = 5_000;
export const BUCKETS = 60;
const MOST_LOST = 50;
/** A module with a `key` function may have longer resources. */
const LONGEST_RESOURCE = 1_024;

/** A lock that a caller of this instance lost. */
export interface LostLock {
  /** Rises with each lost lock. */
  readonly id: number;
  readonly resource: string;
  readonly heldMs: number;
  /** Why, if the event says it. */
  readonly reason: string | undefined;
  readonly method: string | undefined;
  readonly label: string | undefined;
  /** In milliseconds since 1970, on the clock of this machine. */
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
    const handler = (record: (event: never) => void): Handler => {
      return (event) => {
        if ((event as LockEvent).instance === this.instance) record(event as never);
      };
    };
    this.handlers = [
      [lockChannels.granted, handler(({ waitedMs }: GrantedEvent) => this.onWaited(waitedMs, 0))],
      [lockChannels.refused, handler((event: RefusedEvent) => this.onRefused(event))],
      [lockChannels.released, handler(({ heldMs }: EndedEvent) => this.onEnded(heldMs))],
      [lockChannels.lost, handler((event: LostEvent) => this.onLost(event))],
    ];
  }

  start(): void {
    for (const [channel, handler] of this.handlers) channel.subscribe(handler);
  }

  stop(): void {
    for (const [channel, handler] of this.handlers) channel.unsubscribe(handler);
  }

  /** Records how many locks a read found. */
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

  private onRefused({ waitedMs, outcome }: RefusedEvent): void {
    // Its caller has got the lock, as a nested hold.
    if (outcome !== 'nested') this.onWaited(waitedMs, 1);
  }

  private onEnded(heldMs: number): void {
    add(this.bucket().holds, heldMs);
  }

  private onLost({ resource, heldMs, reason, method, label }: LostEvent): void {
    this.onEnded(heldMs);
    this.lostCount += 1;
    this.lost.unshift({
      id: this.lostCount,
      resource: resource.slice(0, LONGEST_RESOURCE),
      heldMs,
      reason: reasonOf(reason),
      method,
      label,
      at: this.clock.wallTime(),
    });
    if (this.lost.length > MOST_LOST) this.lost.pop();
  }

  /** Returns the present interval. After the wall clock was set back, those that are in the future are forgotten. */
  private bucket(): Bucket {
    const at = this.now();
    while ((this.buckets.at(-1)?.at ?? at) > at) this.buckets.pop();
    const last = this.buckets.at(-1);
    if (last?.at === at) return last;
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
function reasonOf(reason: LostEvent['reason']): string | undefined {
  return reason && messageOf(reason).replace(/^The lock on .*? was lost after \d+ ms: /s, '');
}
