import { getEventListeners } from 'node:events';
import { describe, expect, it, jest } from '@jest/globals';
import { eitherOf, isAbortSignal, onAbort, throwIfAborted } from '../../../lib/common/abort-signals.js';

const listenersOf = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

/** Returns an object with the shape of a signal, whose listener a test calls. */
function polyfill(overrides: object = {}) {
  const listeners = new Set<() => void>();
  const signal = {
    aborted: false,
    addEventListener: (_event: string, listener: () => void) => void listeners.add(listener),
    removeEventListener: (_event: string, listener: () => void) => void listeners.delete(listener),
    ...overrides,
  };
  const abort = (): void => {
    signal.aborted = true;
    for (const listener of listeners) listener();
  };
  return { signal: signal as unknown as AbortSignal, listeners, abort };
}

describe('the listener of a signal', () => {
  it('is one for all callbacks, and none without a callback', () => {
    const { signal } = new AbortController();
    const waiting = Array.from({ length: 1_000 }, () => onAbort(signal, () => undefined));
    expect(listenersOf(signal)).toBe(1);
    for (const each of waiting.slice(1)) each.stop();
    expect(listenersOf(signal)).toBe(1);
    waiting[0]?.stop();
    waiting[0]?.stop();
    expect(listenersOf(signal)).toBe(0);
  });

  it('calls each callback once with the reason, and is gone', () => {
    const controller = new AbortController();
    const [first, second, stopped] = [jest.fn(), jest.fn(), jest.fn()];
    onAbort(controller.signal, first);
    onAbort(controller.signal, second);
    onAbort(controller.signal, stopped).stop();
    controller.abort('enough');
    expect([first, second, stopped].map(({ mock }) => mock.calls)).toEqual([[['enough']], [['enough']], []]);
    expect(listenersOf(controller.signal)).toBe(0);
  });

  it('calls a function as often as it was given', () => {
    const controller = new AbortController();
    const callback = jest.fn();
    onAbort(controller.signal, callback).stop();
    onAbort(controller.signal, callback);
    onAbort(controller.signal, callback);
    controller.abort();
    expect(callback).toHaveBeenCalledTimes(2);
  });

  it('has an AbortError as its reason if the signal gives none', () => {
    const { signal, abort } = polyfill();
    const callback = jest.fn<(reason: unknown) => void>();
    onAbort(signal, callback);
    abort();
    expect(callback.mock.calls[0]?.[0]).toMatchObject({ name: 'AbortError' });
    expect(() => throwIfAborted(signal)).toThrow(expect.objectContaining({ name: 'AbortError' }));
  });
});

it.each<[what: string, value: unknown, is: boolean]>([
  ['a signal', AbortSignal.abort(), true],
  ['a polyfill', polyfill().signal, true],
  ['a controller', new AbortController(), false],
  ['an event target', new EventTarget(), false],
  ['an object that can only throw', { throwIfAborted: () => undefined }, false],
  ['a signal without a state', polyfill({ aborted: undefined }).signal, false],
  ['null', null, false],
  ['a function', () => undefined, false],
])('isAbortSignal() of %s', (_what, value, is) => {
  expect(isAbortSignal(value)).toBe(is);
});

describe('eitherOf()', () => {
  it('follows both until stop() is called', () => {
    const [one, other, third] = [new AbortController(), new AbortController(), new AbortController()];
    const first = eitherOf(one.signal, other.signal);
    const second = eitherOf(third.signal, other.signal);
    second.stop();
    other.abort('other');
    expect(first.signal?.reason).toBe('other');
    expect(second.signal?.aborted).toBe(false);
    first.stop();
    expect([one, other, third].map(({ signal }) => listenersOf(signal))).toEqual([0, 0, 0]);
  });

  it('has aborted if one of the two has', () => {
    const { signal } = new AbortController();
    expect(eitherOf(signal, AbortSignal.abort('past')).signal?.reason).toBe('past');
  });

  it('is the only one that is given', () => {
    const { signal } = new AbortController();
    expect([eitherOf(signal, undefined).signal, eitherOf(undefined, signal).signal]).toEqual([signal, signal]);
    expect(eitherOf(undefined, undefined).signal).toBeUndefined();
  });
});
