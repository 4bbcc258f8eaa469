import type { ExecutionContext } from '@nestjs/common';
import { RESPONSE_PASSTHROUGH_METADATA, ROUTE_ARGS_METADATA, SSE_METADATA } from '@nestjs/common/constants.js';
import { MetadataScanner, type ModulesContainer } from '@nestjs/core';
import { RouterExecutionContext } from '@nestjs/core/router/router-execution-context.js';
import { EMPTY, Observable, type Subscriber } from 'rxjs';
import { decoratedMethodOf } from './locked-method.js';

// Nest sends the status and the headers of an `@Sse` handler before it calls interceptors, so a busy lock would be a
// 200 with an event. Handlers with our decorators are therefore ordinary handlers to Nest's router, which passes errors
// to the exception filters. When the method has its lock, Nest's own function sends the events.

/** Sends the events of an Observable. Resolves at the end of the response, or immediately in Nest 10. */
type SendEvents = (events: Observable<unknown>, response: unknown, request: unknown) => unknown;

/** The parts of Nest's class that are used here. Nest 10 and 11.0 have no abort signal for `@Sse` handlers. */
interface NestRouter {
  createHandleResponseFn(handler: object, isResponseHandled: boolean): SendEvents;
  attachSseAbortSignal?(request: unknown): void;
}

/** An Express response, or the raw response below a Fastify reply. */
interface RawResponse {
  readonly destroyed: boolean;
  once(event: 'close', listener: () => void): unknown;
  removeListener(event: 'close', listener: () => void): unknown;
}

const nest = new (RouterExecutionContext as unknown as new () => NestRouter)();

const SSE_HANDLER = Symbol.for('nestjs-redis-lock:sse-handler');

/** The key of a parameter that gets the response. Nest does not reply for a handler that has one. */
const RESPONSE_PARAMETER = '1:-1';

/** Makes all `@Sse` handlers with our decorators ordinary handlers to Nest's router before it creates the routes. */
export function takeOverSseHandlers(modules: ModulesContainer): void {
  const scanner = new MetadataScanner();
  for (const { controllers } of modules.values()) {
    for (const { metatype } of controllers.values()) {
      const methods = (metatype as { prototype?: Record<string, object> } | null)?.prototype;
      if (methods === undefined) continue;
      for (const name of scanner.getAllMethodNames(methods)) {
        if (decoratedMethodOf(methods[name]) !== undefined) takeOver(metatype as object, name, methods[name]);
      }
    }
  }
}

function takeOver(controller: object, name: string, handler: object): void {
  if (Reflect.getMetadata(SSE_METADATA, handler) === true) {
    const sse = (): void => undefined;
    for (const key of Reflect.getMetadataKeys(handler) as unknown[]) {
      Reflect.defineMetadata(key, Reflect.getMetadata(key, handler), sse);
    }
    Reflect.defineMetadata(SSE_HANDLER, nest.createHandleResponseFn(sse, false), handler);
    Reflect.deleteMetadata(SSE_METADATA, handler);
  }
  // A subclass inherits the handler.
  if (sendEventsOf(handler) === undefined) return;
  const parameters = Reflect.getMetadata(ROUTE_ARGS_METADATA, controller, name) as object | undefined;
  const response = { index: -1, data: undefined, pipes: [] };
  Reflect.defineMetadata(ROUTE_ARGS_METADATA, { ...parameters, [RESPONSE_PARAMETER]: response }, controller, name);
  Reflect.defineMetadata(RESPONSE_PASSTHROUGH_METADATA, false, controller, name);
}

/** Returns the function that sends the events of a handler. Undefined if it is not an `@Sse` handler. */
export function sendEventsOf(handler: object): SendEvents | undefined {
  return Reflect.getMetadata(SSE_HANDLER, handler) as SendEvents | undefined;
}

/**
 * Sends the values of an Observable as events. The response begins when `open` calls `onReady`, with the first value or
 * at the end, whichever comes first. An error before that is the error of the returned Observable, which completes at
 * the end of the response.
 *
 * @param open returns the values. Called and subscribed once, or not at all if the client has left.
 * @param toPublic returns the error that the client may see. Nest 10 sends its message.
 */
export function respondWithEvents(
  send: SendEvents,
  context: ExecutionContext,
  open: (onReady: () => void) => Observable<unknown>,
  toPublic: (error: unknown) => unknown,
): Observable<unknown> {
  return new Observable((subscriber) => {
    const call = new EventResponse(send, context, subscriber, toPublic);
    // A guard may have taken longer than the client waited.
    if (call.isClosed) call.leave();
    else call.follow(open(() => call.begin()));
    return () => call.leave();
  });
}

type Notify = (events: Subscriber<unknown>) => void;

/** The response to one call of an `@Sse` handler. */
class EventResponse {
  private begun = false;
  private ended = false;
  /** Notifications that nobody has subscribed to yet. */
  private readonly early: Notify[] = [];
  private events: Subscriber<unknown> | undefined;
  private unsubscribe: () => void = () => undefined;
  private readonly request: unknown;
  private readonly response: unknown;
  private readonly raw: RawResponse;
  private readonly onClose = (): void => this.leave();

  constructor(
    private readonly send: SendEvents,
    context: ExecutionContext,
    private readonly subscriber: Subscriber<unknown>,
    private readonly toPublic: (error: unknown) => unknown,
  ) {
    this.request = context.switchToHttp().getRequest();
    this.response = context.switchToHttp().getResponse();
    this.raw = (this.response as { raw?: RawResponse }).raw ?? (this.response as RawResponse);
    nest.attachSseAbortSignal?.(this.request);
    this.raw.once('close', this.onClose);
  }

  get isClosed(): boolean {
    return this.raw.destroyed;
  }

  follow(values: Observable<unknown>): void {
    const subscription = values.subscribe({
      next: (value) => this.notify((events) => events.next(value)),
      error: (error: unknown) => {
        if (this.begun) this.notify((events) => events.error(this.toPublic(error)));
        else this.end(() => this.subscriber.error(error));
      },
      complete: () => this.notify((events) => events.complete()),
    });
    this.unsubscribe = () => subscription.unsubscribe();
    if (this.ended) this.unsubscribe();
  }

  begin(): void {
    if (this.begun || this.ended) return;
    this.begun = true;
    this.raw.removeListener('close', this.onClose);
    void this.sendAll();
  }

  /** Ends the call of a client that has left. */
  leave(): void {
    if (this.ended) return;
    // The response is closed, so this sends nothing, but Nest aborts the signal of `@SseSignal()`.
    if (!this.begun && nest.attachSseAbortSignal !== undefined) void this.send(EMPTY, this.response, this.request);
    this.end(() => this.complete());
  }

  private notify(notify: Notify): void {
    if (this.events === undefined) this.early.push(notify);
    else notify(this.events);
    this.begin();
  }

  private async sendAll(): Promise<void> {
    const events = new Observable<unknown>((subscriber) => {
      this.events = subscriber;
      for (const notify of this.early.splice(0)) notify(subscriber);
      return () => this.unsubscribe();
    });
    try {
      await this.send(events, this.response, this.request);
    } catch (error) {
      return this.end(() => this.subscriber.error(error));
    }
    // Nest 10 has only begun to send. Without a subscriber, the client left before the response began.
    if (this.events === undefined) this.end(() => this.complete());
    else this.events.add(() => this.end(() => this.complete()));
  }

  private complete(): void {
    this.subscriber.next(undefined);
    this.subscriber.complete();
  }

  private end(pass: () => void): void {
    if (this.ended) return;
    this.ended = true;
    this.raw.removeListener('close', this.onClose);
    this.unsubscribe();
    pass();
  }
}
