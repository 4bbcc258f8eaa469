import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { defer, lastValueFrom, Observable, of } from 'rxjs';
import {
  type LockCallContext,
  Locked,
  LockLostError,
  LockTimeoutError,
  lockTracing,
  workChannel,
  type WorkMessage,
} from 'nestjs-redis-lock';
import { createTestLocks, ManualClock, withLocks } from 'nestjs-redis-lock/testing';
import { faultyLocks, outcome } from '../support/locks.js';

type Step = 'start' | 'end' | 'asyncStart' | 'asyncEnd' | 'error';
const STEPS: readonly Step[] = ['start', 'end', 'asyncStart', 'asyncEnd', 'error'];

/** Records what is published to both tracing channels, as it was at that moment. */
class Trace {
  readonly steps: { readonly at: string; readonly context: LockCallContext; readonly copy: LockCallContext }[] = [];
  private readonly stops: (() => void)[] = [];

  start(): void {
    for (const name of ['acquire', 'hold'] as const) {
      for (const step of STEPS) {
        const channel = lockTracing[name][step];
        const listener = (message: unknown): void => {
          const context = message as LockCallContext;
          this.steps.push({ at: `${name}:${step}`, context, copy: { ...context } });
        };
        channel.subscribe(listener);
        this.stops.push(() => void channel.unsubscribe(listener));
      }
    }
  }

  stop(): void {
    for (const stop of this.stops) stop();
  }

  /** The steps of a resource, `acquire:start`. */
  of(resource: string): string[] {
    return this.steps.filter(({ context }) => context.resource === resource).map(({ at }) => at);
  }

  at(step: string): LockCallContext | undefined {
    return this.steps.find(({ at }) => at === step)?.copy;
  }
}

const GRANTED = ['acquire:start', 'acquire:end', 'acquire:asyncStart', 'acquire:asyncEnd', 'hold:start', 'hold:end'];
const RELEASED = [...GRANTED, 'hold:asyncStart', 'hold:asyncEnd'];

describe('the tracing channels', () => {
  let trace: Trace;

  beforeEach(() => {
    trace = new Trace();
    trace.start();
  });
  afterEach(() => trace.stop());

  it('publish one object from the call to the release', async () => {
    const { clock, locks } = faultyLocks();
    const lock = await locks.acquire('goods:300', { label: 'request 7' });
    await clock.advance(50);
    await lock.release();
    expect(trace.of('goods:300')).toEqual(RELEASED);
    expect(new Set(trace.steps.map(({ context }) => context)).size).toBe(1);
    const call = {
      id: expect.any(String),
      resource: 'goods:300',
      family: 'goods',
      key: '{lock_goods}:300',
      instance: 'default',
      mode: 'exclusive',
      permits: undefined,
      method: undefined,
      label: 'request 7',
      waitMs: 5_000,
    };
    const empty = { outcome: undefined, fencingToken: undefined, waitedMs: undefined, heldMs: undefined };
    const granted = { ...call, outcome: 'granted', fencingToken: lock.fencingToken, waitedMs: 0 };
    expect(trace.at('acquire:start')).toEqual({ ...call, ...empty, error: undefined });
    expect(trace.at('acquire:asyncStart')).toEqual({ ...granted, heldMs: undefined, error: undefined });
    expect(trace.at('hold:asyncEnd')).toEqual({ ...granted, outcome: 'released', heldMs: 50, error: undefined });
  });

  it('publish the error of a refusal, and no hold', async () => {
    const { locks } = faultyLocks();
    await locks.acquire('goods:300');
    trace.steps.length = 0;
    expect(await locks.tryAcquire('goods:300')).toBeNull();
    expect(trace.of('goods:300')).toEqual([
      'acquire:start',
      'acquire:end',
      'acquire:error',
      'acquire:asyncStart',
      'acquire:asyncEnd',
    ]);
    expect(trace.at('acquire:error')).toMatchObject({ outcome: 'busy', waitMs: 0 });
    expect(trace.at('acquire:error')?.error).toBeInstanceOf(LockTimeoutError);
  });

  it('distinguish a call that has waited from one that does not wait', async () => {
    const { clock, locks } = faultyLocks();
    await locks.acquire('goods:300');
    trace.steps.length = 0;
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 50 }));
    await clock.advance(60);
    expect(waiting.error).toBeInstanceOf(LockTimeoutError);
    expect(trace.at('acquire:error')).toMatchObject({ outcome: 'timeout', waitMs: 50 });
  });

  it('publish the loss of a hold as its error, once', async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    await stranger.steal('{lock_goods}:300');
    await clock.advance(1_000);
    expect(await lock.release()).toBe(false);
    expect(trace.of('goods:300')).toEqual([...GRANTED, 'hold:error', 'hold:asyncStart', 'hold:asyncEnd']);
    expect(trace.at('hold:error')).toMatchObject({ outcome: 'lost', heldMs: 900 });
    expect(trace.at('hold:error')?.error).toBeInstanceOf(LockLostError);
  });

  it("publish the end of the waiting by the caller's signal as aborted", async () => {
    const { locks } = faultyLocks();
    await locks.acquire('goods:300');
    const abort = new AbortController();
    const waiting = locks.acquire('goods:300', { signal: abort.signal });
    abort.abort(new Error('the client is gone'));
    await expect(waiting).rejects.toThrow('the client is gone');
    expect(trace.at('acquire:error')).toMatchObject({ outcome: 'aborted', error: abort.signal.reason });
  });

  it('publish each of several locks, and nothing of nested holds', async () => {
    const { locks } = faultyLocks();
    await locks.using(['account:1', 'account:2'], () => locks.using('account:1', () => undefined));
    expect(trace.of('account:1')).toEqual(RELEASED);
    expect(trace.of('account:2')).toEqual(RELEASED);
    expect(new Set(trace.steps.map(({ context }) => context.id)).size).toBe(2);
  });

  it('publish a hold that a lock scope keeps until the scope ends', async () => {
    const { locks } = faultyLocks();
    await locks.scope(async () => {
      await locks.using('goods:300', () => undefined);
      await locks.using('goods:300', () => undefined);
      expect(trace.of('goods:300')).toEqual(GRANTED);
    });
    expect(trace.of('goods:300')).toEqual(RELEASED);
  });

  it('publish a request beside another one of its scope as nested', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take('{lock_goods}:300', 1_000);
    const running = locks.scope(() => {
      const options = { waitMs: 60_000 };
      return Promise.all([
        locks.acquire(['goods:300', 'page:1'], options),
        locks.acquire(['goods:300', 'page:2'], options),
      ]);
    });
    await clock.advance(5_000);
    await running;
    const outcomes = trace.steps.filter(({ at }) => at === 'acquire:asyncEnd').map(({ copy }) => String(copy.outcome));
    expect(outcomes.toSorted()).toEqual(['granted', 'granted', 'granted', 'nested']);
    expect(trace.steps.map(({ at }) => at)).not.toContain('acquire:error');
  });

  it('publish no end without a start', async () => {
    trace.stop();
    const { locks } = faultyLocks();
    const held = await locks.acquire('goods:300');
    const waiting = locks.acquire('goods:300');
    const late = new Trace();
    late.start();
    try {
      await held.release();
      await (await waiting).release();
      expect(late.of('goods:300')).toEqual(['hold:start', 'hold:end', 'hold:asyncStart', 'hold:asyncEnd']);
    } finally {
      late.stop();
    }
  });
});

describe('the channel of work', () => {
  const messages: WorkMessage[] = [];
  const log: string[] = [];
  const listener = (given: unknown): void => {
    const message = given as WorkMessage;
    messages.push(message);
    const { run } = message;
    message.run = () => {
      log.push('before');
      return run();
    };
  };

  beforeEach(() => {
    messages.length = log.length = 0;
    workChannel.subscribe(listener);
  });
  afterEach(() => void workChannel.unsubscribe(listener));

  it('lets a subscriber run the work of `using`, with its holds', async () => {
    const locks = createTestLocks({ clock: new ManualClock() });
    const result = await locks.using(['goods:1', 'goods:2'], () => log.push('work'));
    expect([result, ...log]).toEqual([2, 'before', 'work']);
    expect(messages.map(({ calls }) => calls.map((call) => [call.resource, call.outcome]))).toEqual([
      [
        ['goods:1', 'released'],
        ['goods:2', 'released'],
      ],
    ]);
  });

  it('lets a subscriber run a @Locked method', async () => {
    class Goods {
      @Locked('goods:<id>')
      async buy(id: number) {
        return log.push(`buy ${id}`);
      }
    }
    await withLocks(new Goods()).buy(300);
    expect(log).toEqual(['before', 'buy 300']);
    expect(messages[0]?.calls).toMatchObject([{ resource: 'goods:300', method: 'Goods.buy' }]);
  });

  it('lets a subscriber run the subscription to a stream', async () => {
    class Prices {
      @Locked('price:<id>')
      watch(id: number): Observable<number> {
        return defer(() => of(log.push(`watch ${id}`)));
      }
    }
    expect(await lastValueFrom(withLocks(new Prices()).watch(7))).toBe(2);
    expect(log).toEqual(['before', 'watch 7']);
  });

  it('has no message for nested holds, handles and scopes', async () => {
    const locks = createTestLocks();
    await locks.using('goods:1', () => locks.using('goods:1', () => undefined));
    await (await locks.acquire('goods:2')).release();
    await locks.scope(() => undefined);
    expect(messages).toHaveLength(1);
  });

  it('runs the work in the stores that are bound to it', async () => {
    const store = new AsyncLocalStorage<string>();
    workChannel.bindStore(store, (message) => (message as WorkMessage).calls[0].resource);
    try {
      expect(await createTestLocks().using('goods:300', () => Promise.resolve(store.getStore()))).toBe('goods:300');
    } finally {
      workChannel.unbindStore(store);
    }
  });
});
