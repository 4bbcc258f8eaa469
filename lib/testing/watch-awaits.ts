import { promisify, types } from 'node:util';
import { type CallSite, callerOf } from '../core/context/call-site.js';

/** What watches the awaits of the program. */
export interface AwaitWatcher {
  /** Returns whether the `await` at that place is watched. Called when the `await` begins. */
  isWatched(site: CallSite): boolean;
  /** Called when it is over. The program continues when the returned promise has resolved, or immediately. */
  onAwaited(site: CallSite): Promise<void> | undefined;
}

/** The value of a watched promise's `constructor`. Only the comparison with `Promise` reads it. */
const NOT_PROMISE = Symbol('nestjs-redis-lock:watched');

let isReading = false;

/**
 * Watches every `await` of a promise in the program's code, in all contexts of the process. Returns a function that
 * stops watching.
 *
 * `await` compares the `constructor` of its promise with `Promise`, and calls `then` if they differ (PromiseResolve of
 * ECMAScript). So a getter on the prototype sees each `await`, with its place on the stack, and may delay its end. It
 * does not see values that are not promises, nor an `await` that was compiled to generators or to `then`.
 */
export function watchAwaits(watcher: AwaitWatcher): () => void {
  // A test runner may give the program a `Promise` other than that of Node's own modules.
  const ofNode = Object.getPrototypeOf(promisify((done: () => void) => done())()) as object;
  const ends = Array.from(new Set([Promise.prototype as object, ofNode]), (prototype) => watch(prototype, watcher));
  return () => ends.forEach((end) => end());
}

function watch(prototype: object, watcher: AwaitWatcher): () => void {
  const descriptor = Object.getOwnPropertyDescriptor(prototype, 'constructor') as PropertyDescriptor;
  const real: unknown = descriptor.value;
  Object.defineProperty(prototype, 'constructor', {
    configurable: true,
    enumerable: false,
    get: function getConstructor(this: unknown): unknown {
      if (isReading || !types.isPromise(this)) return real;
      const site = siteOf(getConstructor);
      if (site === undefined || !watcher.isWatched(site)) return real;
      delayNextThen(this, () => watcher.onAwaited(site));
      return NOT_PROMISE;
    },
    set(this: object, value: unknown) {
      Object.defineProperty(this, 'constructor', { value, configurable: true, enumerable: true, writable: true });
    },
  });
  return () => Object.defineProperty(prototype, 'constructor', descriptor);
}

/** Returns the place that read `constructor`. Undefined for functions of the engine, packages and this library. */
function siteOf(getter: () => unknown): CallSite | undefined {
  // Code that formats stacks may use promises.
  isReading = true;
  try {
    return callerOf(getter);
  } finally {
    isReading = false;
  }
}

/** Lets the next caller of `then`, which is the `await`, wait for what `onSettled` returns. */
function delayNextThen(promise: Promise<unknown>, onSettled: () => Promise<void> | undefined): void {
  const delayed = (resolve: (value: unknown) => void, reject: (reason: unknown) => void): void => {
    const after = (goOn: () => void): void => {
      const wait = onSettled();
      if (wait === undefined) goOn();
      else void wait.then(goOn);
    };
    void promise.then(
      (value) => after(() => resolve(value)),
      (reason: unknown) => after(() => reject(reason)),
    );
  };
  // oxlint-disable-next-line unicorn/no-thenable -- the property of a promise is replaced
  Reflect.defineProperty(promise, 'then', {
    configurable: true,
    get() {
      Reflect.deleteProperty(promise, 'then');
      return delayed;
    },
  });
}
