import { EventEmitter } from 'node:events';
import type { ExecutionContext } from '@nestjs/common';
import { expect, it } from '@jest/globals';
import { of, Subject } from 'rxjs';
import type { Observable } from 'rxjs';
import { respondWithEvents } from '../../../lib/locked/sse-response.js';

const httpContext = (response: object): ExecutionContext =>
  ({
    switchToHttp: () => ({ getRequest: () => new EventEmitter(), getResponse: () => response }),
  }) as unknown as ExecutionContext;

it('an error after the response has begun is sent as the error for clients', () => {
  const sent: unknown[] = [];
  const send = (events: Observable<unknown>): void => {
    events.subscribe({ next: (value) => sent.push(value), error: (error: unknown) => sent.push(error) });
  };
  const values = new Subject();
  const context = httpContext(Object.assign(new EventEmitter(), { destroyed: false }));
  respondWithEvents(
    send,
    context,
    () => values,
    (error) => `public: ${(error as Error).message}`,
  ).subscribe({ error: () => undefined });
  values.next('price');
  values.error(new Error('held by api-7f9c-31'));
  expect(sent).toEqual(['price', 'public: held by api-7f9c-31']);
});

it('nothing is opened for a client that has left', () => {
  const context = httpContext(Object.assign(new EventEmitter(), { destroyed: true }));
  let opened = false;
  const open = (): Observable<unknown> => {
    opened = true;
    return new Subject();
  };
  let completed = false;
  respondWithEvents(
    () => undefined,
    context,
    open,
    (error) => error,
  ).subscribe({ complete: () => (completed = true) });
  expect({ opened, completed }).toEqual({ opened: false, completed: true });
});

it('the call ends if nobody subscribes to the events, because the client has just left', async () => {
  const context = httpContext(Object.assign(new EventEmitter(), { destroyed: false }));
  let completed = false;
  respondWithEvents(
    () => undefined,
    context,
    () => of('price'),
    (error) => error,
  ).subscribe({ complete: () => (completed = true) });
  await new Promise(setImmediate);
  expect(completed).toBe(true);
});
