import { finished, type Readable } from 'node:stream';
import type { ExecutionContext } from '@nestjs/common';
import { runInside, type Surrounding, surroundings } from '../core/async-context.js';
import type { Hold } from '../core/hold/lock.js';

/** What a scope leaves to the wrapper that has filled it: how a hold ends. */
export type HoldEnd = (lock: Hold, workError?: unknown) => Promise<void>;

/**
 * One call of a `@Locked` handler, from the first interceptor to the last: opened by the interceptor, filled with a lock by
 * the method's wrapper, ended by the interceptor. So the lock is taken with the arguments that the method really gets, and
 * still covers what other interceptors do afterwards.
 */
export class HandlerScope implements Surrounding {
  lock: Hold | undefined;
  /** Whoever listened to the call has let go of it, and has not tried again. */
  abandoned = false;
  private readonly departure = new AbortController();
  private over = false;
  private work: Promise<unknown> | undefined;
  private readonly turns = new Set<HandlerCall>();
  private sending: Promise<void> | undefined;
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

  /** Whether a call may still use it. One that nobody waits for may not run under a lock of its own either. */
  get open(): boolean {
    return !this.over || this.signal.aborted;
  }

  /** Whether the method is still inside, or waits for its lock. */
  get working(): boolean {
    return this.work !== undefined;
  }

  /** The file that is being sent, if the handler answered one. */
  get streaming(): boolean {
    return this.sending !== undefined;
  }

  /**
   * Runs one call of the handler. An interceptor that tries again may do so while the first try is still inside: calls
   * run one after the other, because the lock of the scope does not keep them apart.
   */
  enter<T>(call: (turn: HandlerCall) => Promise<T>): Promise<T> {
    const turn = new HandlerCall(this);
    this.turns.add(turn);
    const begin = (): Promise<T> => runInside(turn, () => call(turn));
    const result = this.work === undefined ? begin() : this.work.then(begin);
    const settled = (): void => {
      this.turns.delete(turn);
      if (this.work === work) this.work = undefined;
    };
    const work = result.then(settled, settled);
    this.work = work;
    return result;
  }

  /** Keeps the lock until the end of the scope; false if it keeps one already. */
  fill(lock: Hold, endHold: HoldEnd): boolean {
    if (this.signal.aborted) lock.abort(this.signal.reason);
    if (this.lock !== undefined) return false;
    this.lock = lock;
    this.endHold = endHold;
    return true;
  }

  /** A file is sent after its handler has ended, and is part of the work. */
  trackStream(value: unknown): void {
    const body = bodyOf(value);
    if (body === undefined) return;
    const sending = sent(body).finally(() => {
      if (this.sending === sending) this.sending = undefined;
    });
    this.sending = sending;
  }

  /** Somebody listens to the call (again). */
  resume(): void {
    this.abandoned = false;
  }

  /** Nobody listens to the call: an interceptor may try again, unless it has answered. */
  abandon(): void {
    this.abandoned = true;
    if (this.over) this.depart();
  }

  /** Nobody waits for the call any more: its work is told, and keeps the lock until it has really ended. */
  depart(): void {
    const reason = new DOMException('Nobody waits for this call any more.', 'AbortError');
    this.departure.abort(reason);
    this.lock?.abort(reason);
    for (const { lock } of this.turns) lock?.abort(reason);
  }

  /** Ends the hold, once neither the method nor the file needs it any more. */
  async end(workError?: unknown): Promise<void> {
    this.over = true;
    while (this.work !== undefined) await this.work;
    await this.sending;
    if (this.lock !== undefined) await this.endHold?.(this.lock, workError);
  }
}

/** One call of a scope's handler. */
export class HandlerCall implements Surrounding {
  lock: Hold | undefined;

  constructor(readonly scope: HandlerScope) {}
}

/** The open scope that a handler is called in; not for calls which that handler makes of itself. */
export function scopeOf(handler: object): HandlerScope | undefined {
  const inside = new Set<HandlerScope>();
  for (const around of surroundings()) {
    if (around instanceof HandlerCall) inside.add(around.scope);
    else if (around instanceof HandlerScope && around.handler === handler && !inside.has(around)) {
      return around.open ? around : undefined;
    }
  }
  return undefined;
}

/** What a `StreamableFile` sends; told by its shape, so that one of another copy of Nest's is one too. */
function bodyOf(value: unknown): Readable | undefined {
  const file = value as { getStream?: () => unknown; setErrorHandler?: unknown } | null | undefined;
  if (typeof file?.getStream !== 'function' || typeof file.setErrorHandler !== 'function') return undefined;
  const body = file.getStream() as Partial<Readable> | undefined;
  return typeof body?.pipe === 'function' && typeof body.on === 'function' ? (body as Readable) : undefined;
}

/** Until it is read to its end, has failed or is closed: streams of old libraries do not close themselves. */
function sent(body: Readable): Promise<void> {
  return new Promise((resolve) => void finished(body, { writable: false }, () => resolve()));
}
