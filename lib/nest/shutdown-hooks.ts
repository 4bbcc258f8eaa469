import { isMainThread } from 'node:worker_threads';
import type { HttpAdapterHost, ModulesContainer } from '@nestjs/core';
import type { Clock, Timer } from '../clock/clock.js';

/** `enableShutdownHooks()` may be called after `listen()`, or after an application context was created. */
const CHECK_AFTER_MS = 5_000;

/** The signals that usually stop a process. */
const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

let isReported = false;

/** What the check looks at. */
interface HooksCheck {
  readonly modules: ModulesContainer;
  readonly adapterHost: HttpAdapterHost;
  readonly clock: Clock;
  /** How long a lock stays held after the process was killed, in milliseconds. */
  readonly ttlMs: number;
  warn(this: void, message: string): void;
}

/**
 * Warns once per process, a few seconds after the start, if nothing in it handles the signals that stop it. Its locks
 * would stay held until their leases end. Does not keep the process alive.
 *
 * A module cannot know whether `enableShutdownHooks()` was called. The application's own listener also suffices.
 */
export function warnWithoutHooks({ modules, adapterHost, clock, ttlMs, warn }: HooksCheck): Timer {
  const check = (): void => {
    if (isReported || !isMainThread || isTest(modules) || isNotServing(adapterHost) || handlesSignals()) return;
    isReported = true;
    const signals = SIGNALS.join(' or ');
    const effect = `When it is stopped, its locks stay held for up to ${ttlMs} ms.`;
    warn(`Nothing in this process listens to ${signals}. ${effect} Call app.enableShutdownHooks() in main.ts.`);
  };
  return clock.schedule(CHECK_AFTER_MS, check, true);
}

function handlesSignals(): boolean {
  return SIGNALS.some((signal) => process.listenerCount(signal) > 0);
}

/** Returns whether a test runner started the process, or `Test.createTestingModule()` made the application. */
function isTest(modules: ModulesContainer): boolean {
  const { NODE_ENV, NODE_TEST_CONTEXT } = process.env;
  if (NODE_ENV === 'test' || NODE_TEST_CONTEXT !== undefined) return true;
  return [...modules.values()].some(({ metatype }) => metatype?.name === 'RootTestModule');
}

/** Returns whether the application has an HTTP server that does not listen: a serverless function, or a test. */
function isNotServing({ httpAdapter }: HttpAdapterHost): boolean {
  const server = (httpAdapter as HttpAdapterHost['httpAdapter'] | undefined)?.getHttpServer?.() as
    { readonly listening?: unknown } | undefined;
  return server?.listening === false;
}
