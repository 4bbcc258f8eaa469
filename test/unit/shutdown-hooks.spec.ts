import { Module } from '@nestjs/common';
import type { HttpAdapterHost, ModulesContainer } from '@nestjs/core';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';

type Signal = 'SIGTERM' | 'SIGINT';

const { NODE_ENV } = process.env;
let kept: [Signal, ((...args: unknown[]) => void)[]][];

// The test runner has listeners of its own.
beforeEach(() => {
  process.env['NODE_ENV'] = 'production';
  const signals: Signal[] = ['SIGTERM', 'SIGINT'];
  kept = signals.map((signal) => [signal, process.listeners(signal) as ((...args: unknown[]) => void)[]]);
  for (const signal of signals) process.removeAllListeners(signal);
});

afterEach(() => {
  process.env['NODE_ENV'] = NODE_ENV;
  for (const [signal, listeners] of kept) {
    process.removeAllListeners(signal);
    for (const listener of listeners) process.on(signal, listener);
  }
});

@Module({})
class AppModule {}

interface Application {
  /** The class names of its modules. */
  readonly root?: { readonly name: string };
  /** Whether its HTTP server listens. Default: it has none. */
  readonly listening?: boolean;
}

/** Starts a check with a process of its own, as far as it remembers that it has warned. */
async function check({ root = AppModule, listening }: Application = {}) {
  const warnings: string[] = [];
  const clock = new ManualClock();
  const modules = new Map([['root', { metatype: root }]]) as unknown as ModulesContainer;
  const httpAdapter = listening === undefined ? undefined : { getHttpServer: () => ({ listening }) };
  let start: typeof import('../../lib/nest/shutdown-hooks.js').warnWithoutHooks | undefined;
  await jest.isolateModulesAsync(async () => {
    ({ warnWithoutHooks: start } = await import('../../lib/nest/shutdown-hooks.js'));
  });
  const begin = () =>
    start?.({
      modules,
      adapterHost: { httpAdapter } as unknown as HttpAdapterHost,
      clock,
      ttlMs: 30_000,
      warn: (message) => void warnings.push(message),
    });
  return { clock, warnings, begin };
}

describe('an application without listeners for signals', () => {
  const WARNING =
    'Nothing in this process listens to SIGTERM or SIGINT. When it is stopped, its locks stay held for up to ' +
    '30000 ms. Call app.enableShutdownHooks() in main.ts.';

  it.each([undefined, true])('is warned of once, some time after its start (listening: %s)', async (listening) => {
    const { clock, warnings, begin } = await check({ listening });
    begin();
    begin();
    await clock.advance(4_999);
    expect(warnings).toEqual([]);
    await clock.advance(1);
    expect(warnings).toEqual([WARNING]);
  });

  it('is not warned of if it has ended by then', async () => {
    const { clock, warnings, begin } = await check();
    begin()?.cancel();
    await clock.advance(60_000);
    expect(warnings).toEqual([]);
  });

  it('is not warned of if its HTTP server does not listen', async () => {
    const { clock, warnings, begin } = await check({ listening: false });
    begin();
    await clock.advance(60_000);
    expect(warnings).toEqual([]);
  });

  it('is not warned of if a test runner has started it', async () => {
    process.env['NODE_ENV'] = 'test';
    const { clock, warnings, begin } = await check();
    begin();
    await clock.advance(60_000);
    expect(warnings).toEqual([]);
  });

  it('is not warned of if it is a testing module', async () => {
    // As @nestjs/testing does.
    const { clock, warnings, begin } = await check({ root: { name: 'RootTestModule' } });
    begin();
    await clock.advance(60_000);
    expect(warnings).toEqual([]);
  });
});

it.each(['SIGTERM', 'SIGINT'] as const)('an application that listens to %s is not warned of', async (signal) => {
  const { clock, warnings, begin } = await check();
  begin();
  process.on(signal, () => undefined);
  await clock.advance(60_000);
  expect(warnings).toEqual([]);
});
