import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Locked, LockLostError, LockTimeoutError } from 'nestjs-redis-lock';
import {
  type LockCallContext,
  lockChannels,
  type LockEvent,
  lockTracing,
  workChannel,
  type WorkMessage,
} from 'nestjs-redis-lock/events';
import { createTestLocks, ManualClock, withLocks } from 'nestjs-redis-lock/testing';
import { defer, lastValueFrom, Observable, of } from 'rxjs';
import { outcome } from '../support/async.js';
import { faultyLocks } from '../support/locks.js';

describe('events', () => {
  const seen: [name: string, event: LockEvent][] = [];
  const names = Object.keys(lockChannels) as (keyof typeof lockChannels)[];
  const listeners = names.map((name) => {
    const listener = (event: unknown): void => void seen.push([name, event as LockEvent]);
    return { channel: `nestjs-redis-lock:${name}`, listener };
  });

  beforeEach(() => {
    seen.length = 0;
    for (const { channel, listener } of listeners) subscribe(channel, listener);
  });
  afterEach(() => {
    for (const { channel, listener } of listeners) unsubscribe(channel, listener);
  });

  it('report a lock from request to release, with its times', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    await clock.advance(1_000);
    await lock.release();
    const place = {
      id: expect.stringMatching(/^[0-9a-f]{12}-\d+$/),
      resource: 'goods:300',
      family: 'goods',
      key: '{lock_goods}:300',
      instance: 'default',
      mode: 'exclusive',
      permits: undefined,
      method: undefined,
      label: undefined,
    };
    expect(seen).toEqual([
      ['requested', place],
      ['granted', { ...place, waitedMs: 0, fencingToken: lock.fencingToken }],
      ['extended', place],
      ['released', { ...place, heldMs: 1_000, isDetached: false }],
    ]);
  });

  it('have one id for a call, and another for the next', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    await clock.advance(1_000);
    const busy = locks.tryAcquire('goods:300');
    expect(await busy).toBeNull();
    await lock.release();
    const ids = seen.map(([name, { id }]) => [name, id] as const);
    const [first, second] = [ids[0]?.[1], ids[3]?.[1]];
    expect(second).not.toBe(first);
    expect(ids).toEqual([
      ['requested', first],
      ['granted', first],
      ['extended', first],
      ['requested', second],
      ['refused', second],
      ['released', first],
    ]);
  });

  it('show up to 128 printable characters of a label', async () => {
    const { locks } = faultyLocks();
    await locks.using('goods:300', { label: `a\nb\u202e${'x'.repeat(500)}` }, () => undefined);
    expect(new Set(seen.map(([, { label }]) => label))).toEqual(new Set([`a?b?${'x'.repeat(124)}`]));
    await expect(locks.acquire('goods:300', { label: 7 as never })).rejects.toThrow(
      'the options of a lock: label is 7; expected a string.',
    );
  });

  it('have the method, the label and the family of @Locked', async () => {
    const locks = createTestLocks();
    class Goods {
      private readonly prefix = 'request';

      @Locked('goods:<0>', { label: 'buying' })
      async buy(_id: number) {}

      @Locked('<0>:goods:<1>', {
        label(this: Goods, tenant: string, id: number) {
          return `${this.prefix} ${id} of ${tenant}`;
        },
      })
      async sell(_tenant: string, _id: number) {}

      @Locked((id: number) => `stock:${id}`, { label: () => undefined })
      async count(_id: number) {}

      @Locked('goods:<0>', { label: () => Promise.reject(new Error('too late')) as never })
      async fail(_id: number) {}
    }
    const goods = withLocks(new Goods(), locks);
    await goods.buy(1);
    await goods.sell('acme', 2);
    await goods.count(3);
    const granted = seen.filter(([name]) => name === 'granted');
    expect(granted.map(([, { method, label, family }]) => [method, label, family])).toEqual([
      ['Goods.buy', 'buying', 'goods'],
      ['Goods.sell', 'request 2 of acme', '<0>:goods:<1>'],
      ['Goods.count', undefined, 'stock'],
    ]);
    await expect(goods.fail(4)).rejects.toThrow(
      'Goods.fail: the result of the label function is a Promise; expected a string.',
    );
  });

  it('have a label that is checked at decoration, and that a module has no default for', () => {
    expect(() => {
      class Goods {
        @Locked('goods:<0>', { label: 7 as never })
        async buy(_id: number) {}
      }
      return Goods;
    }).toThrow('@Locked of Goods.buy: label is 7; expected a string or a function.');
    expect(() => createTestLocks({ label: 'every call' } as never)).toThrow('unknown option label');
  });

  it('report refusals and losses', async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
    await locks.acquire('goods:300');
    await locks.tryAcquire('goods:300');
    await stranger.steal('{lock_goods}:300');
    await clock.advance(1_000);
    expect(seen.map(([name]) => name)).toEqual(['requested', 'granted', 'requested', 'refused', 'lost']);
    expect(seen[3]?.[1]).toMatchObject({ waitedMs: 0, reason: expect.any(LockTimeoutError), outcome: 'busy' });
    // At its first renewal.
    expect(seen[4]?.[1]).toMatchObject({ heldMs: 900 });
  });

  it('report how long a list has waited for the resources that it did not get', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await clock.advance(5_000);
    await stranger.take('{lock_goods}:301');
    const list = outcome(locks.acquire(['goods:300', 'goods:301'], { waitMs: 2_000 }));
    await clock.advance(2_000);
    expect(list.error).toBeInstanceOf(LockTimeoutError);
    const refused = seen.filter(([name]) => name === 'refused').map(([, event]) => event);
    expect(refused).toEqual([expect.objectContaining({ resource: 'goods:301', waitedMs: 2_000 })]);
  });

  it('never contain the owner, which could release the lock', async () => {
    const { locks, store } = faultyLocks();
    await locks.using('goods:300', () => undefined);
    const [instance] = (store.acquires[0]?.owner ?? '').split(':');
    expect(instance).toMatch(/^[\w-]+-[\w-]{16}$/);
    expect(JSON.stringify(seen)).not.toContain(instance);
  });
});

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

it('events are not made if nobody subscribes', async () => {
  const published = Object.values(lockChannels).map((channel) => jest.spyOn(channel, 'publish'));
  const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
  const lock = await locks.acquire('goods:300');
  expect(await locks.tryAcquire('goods:300')).toBeNull();
  await clock.advance(1_000);
  await lock.release();
  await locks.acquire('goods:300');
  await stranger.steal('{lock_goods}:300');
  await clock.advance(1_000);
  expect(published.flatMap(({ mock }) => mock.calls)).toEqual([]);
  jest.restoreAllMocks();
});
