import type { Readable } from 'node:stream';
import type { ExecutionContext } from '@nestjs/common';
import type { Lock } from './core/lock.js';
import type { Surrounding } from './core/held-locks.js';

/** What a scope leaves to the wrapper that has filled it: how a hold ends. */
export type HoldEnd = (lock: Lock, workError?: unknown) => Promise<void>;

/**
 * One call of a `@Locked` handler, from the first interceptor to the last: opened by the interceptor, filled with a lock by
 * the method's wrapper, ended by the interceptor. So the lock is taken with the arguments that the method really gets, and
 * still covers what other interceptors do afterwards.
 */
export class HandlerScope implements Surrounding {
  lock: Lock | undefined;
  private readonly departure = new AbortController();
  private taken = false;
  private work: Promise<unknown> | undefined;
  private body: Readable | undefined;
  private endHold: HoldEnd | undefined;

  /** @param handler the mark that `@Locked` has put on the handler. */
  constructor(
    readonly handler: object,
    readonly context: ExecutionContext,
  ) {}

  /** Aborts when nobody waits for the call any more. */
  get signal(): AbortSignal {
    return this.departure.signal;
  }

  /** Whether the method is still inside. */
  get working(): boolean {
    return this.work !== undefined;
  }

  /** The file that is being sent, if the handler answered one. */
  get streaming(): boolean {
    return this.body !== undefined && !this.body.closed;
  }

  /** True once, for the wrapper of the scope's own handler. */
  take(handler: object): boolean {
    if (this.taken || handler !== this.handler) return false;
    this.taken = true;
    return true;
  }

  /** No lock was got; if an interceptor tries the handler again, that call may have the scope. */
  giveBack(): void {
    this.taken = false;
  }

  fill(lock: Lock, endHold: HoldEnd): void {
    this.lock = lock;
    this.endHold = endHold;
    if (this.signal.aborted) lock.abort(this.signal.reason);
  }

  /** The method is inside until this settles. */
  track(work: Promise<unknown>): void {
    const settled = (): void => void (this.work = undefined);
    this.work = work.then(settled, settled);
  }

  /** A file is sent after its handler has ended, and is part of the work. */
  saw(value: unknown): void {
    if (isFile(value)) this.body = value.getStream();
  }

  /** Nobody waits for the call any more: its work is told, and keeps the lock until it has really ended. */
  depart(): void {
    const reason = new DOMException('Nobody waits for this call any more.', 'AbortError');
    this.departure.abort(reason);
    this.lock?.abort(reason);
  }

  /** Ends the hold, once neither the method nor the file needs it any more. */
  async end(workError?: unknown): Promise<void> {
    await this.work;
    if (this.streaming) await closing(this.body as Readable);
    if (this.lock !== undefined) await this.endHold?.(this.lock, workError);
  }
}

/** By its shape, so that another copy of Nest's `StreamableFile` is one too. */
function isFile(value: unknown): value is { getStream(): Readable } {
  return typeof value === 'object' && value !== null && 'getStream' in value && typeof value.getStream === 'function';
}

function closing(body: Readable): Promise<void> {
  return new Promise((resolve) => body.once('close', resolve));
}
