import assert from 'node:assert/strict';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { LockStore } from '../../lib/contract/store.js';

const ASSERTIONS = ['ok', 'strictEqual', 'deepStrictEqual'] as const;

let calls = 0;
let assertions = 0;

/** Returns the store. From now on its calls count for the test that runs. */
export function counted(store: LockStore): LockStore {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      // Every fixture listens.
      if (typeof value !== 'function' || name === 'listen') return value;
      return (...args: unknown[]): unknown => {
        calls += 1;
        return Reflect.apply(value, target, args);
      };
    },
  });
}

/** Registers what counts assertions while the tests of this file or block run. */
export function countAssertions(): void {
  const methods = assert as unknown as Record<string, (...args: unknown[]) => void>;
  const originals = ASSERTIONS.map((name) => [name, methods[name]] as const);
  beforeAll(() => {
    for (const [name, original] of originals) {
      methods[name] = (...args) => {
        assertions += 1;
        original(...args);
      };
    }
  });
  afterAll(() => {
    for (const [name, original] of originals) methods[name] = original;
  });
}

const register: (name: string, body: () => Promise<void>) => void = it;

/** Registers a test that fails if it calls no method of a store or asserts nothing. */
export function itDoesSomething(name: string, body: () => Promise<void>): void {
  register(name, async () => {
    [calls, assertions] = [0, 0];
    await body();
    expect({ calls: calls > 0, assertions: assertions > 0 }).toEqual({ calls: true, assertions: true });
  });
}
