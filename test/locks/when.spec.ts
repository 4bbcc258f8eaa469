import { beforeEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, Locked, LockConfigError, type Lock, type LockService, LockTimeoutError } from 'nestjs-redis-lock';
import { createTestLocks, withLocks } from 'nestjs-redis-lock/testing';
import { firstValueFrom, Observable, of, tap } from 'rxjs';

interface Order {
  readonly id?: number;
  readonly items: number;
}

/** What a `when` of the tests returns instead of a boolean. */
let given: unknown;

const soon = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

class Shop {
  readonly found: (Lock | undefined)[] = [];
  isOpen = true;
  calls = 0;

  @Locked('order:<order.id>', { when: (order: Order) => order.items > 1 })
  async pack(order: Order, @CurrentLock() lock?: Lock): Promise<string> {
    this.found.push(lock);
    return `packed ${order.items}`;
  }

  @Locked('shop', {
    when(this: Shop) {
      return this.isOpen;
    },
  })
  async close(@CurrentLock() lock?: Lock): Promise<Lock | undefined> {
    return lock;
  }

  @Locked('shop', { when: () => given as boolean, onBusy: 'skip', onUnavailable: 'skip' })
  async sell(): Promise<string> {
    throw new LockTimeoutError('of the method');
  }

  @Locked('feed', { when: (isLocked: boolean) => isLocked })
  feed(_isLocked: boolean, @CurrentLock() lock?: Lock): Observable<Lock | undefined> {
    return of(lock).pipe(tap((found) => this.found.push(found)));
  }

  @Locked('feed', { when: () => false })
  endless(onEnd: () => void): Observable<never> {
    this.calls += 1;
    return new Observable(() => onEnd);
  }

  @Locked('feed', { when: () => given as boolean, onBusy: () => of('busy') })
  stream(): Observable<string> {
    return of('streamed');
  }

  @Locked('feed', { when: () => false })
  async undeclared(): Promise<unknown> {
    return of(1);
  }

  @Locked('outer', { when: () => false })
  async outer(locks: LockService): Promise<Lock | undefined> {
    return locks.current('outer');
  }
}

describe('when', () => {
  let locks: LockService;
  let shop: Shop;

  beforeEach(() => {
    given = true;
    locks = createTestLocks({ waitMs: 0 });
    shop = withLocks(new Shop(), locks);
  });

  it('runs the method under the lock if it returns true', async () => {
    expect(await shop.pack({ id: 1, items: 2 })).toBe('packed 2');
    expect(shop.found[0]?.resource).toBe('order:1');
    expect(await locks.inspect('order:1')).toBeNull();
  });

  it('runs the method without the lock if it returns false, even while others hold it', async () => {
    const lock = await locks.acquire('order:1');
    expect(await shop.pack({ id: 1, items: 1 })).toBe('packed 1');
    expect(shop.found).toEqual([undefined]);
    await expect(shop.pack({ id: 1, items: 2 })).rejects.toThrow(LockTimeoutError);
    await lock.release();
  });

  it('is called before the key is made', async () => {
    expect(await shop.pack({ items: 1 })).toBe('packed 1');
    await expect(shop.pack({ items: 2 })).rejects.toMatchObject({ code: 'LOCK_KEY' });
  });

  it('gives no lock to the method that its caller has passed by hand', async () => {
    await using lock = await locks.acquire('order:2');
    await shop.pack({ id: 1, items: 1 }, lock);
    expect(shop.found).toEqual([undefined]);
  });

  it('is called on the instance', async () => {
    expect((await shop.close())?.resource).toBe('shop');
    shop.isOpen = false;
    expect(await shop.close()).toBeUndefined();
  });

  const wrong: [what: string, result: () => unknown][] = [
    ['undefined', () => undefined],
    ['null', () => null],
    ['a number', () => 1],
    ['a string', () => 'false'],
    ['a promise', () => Promise.resolve(false)],
    ['a promise that rejects', () => Promise.reject(new Error('late'))],
  ];

  it.each(wrong)('refuses %s as its result, and does not call the method', async (_what, result) => {
    given = result();
    const error = await shop.sell().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockConfigError);
    expect(String(error)).toMatch(/Shop\.sell: the result of the when function is .*; expected true or false/);
  });

  it('throws what it throws, and neither onBusy nor onUnavailable applies', async () => {
    class Failing {
      @Locked('shop', {
        onBusy: 'skip',
        when: () => {
          throw new LockTimeoutError('of when');
        },
      })
      async buy(): Promise<void> {}
    }
    await expect(withLocks(new Failing(), locks).buy()).rejects.toThrow('of when');
  });

  it('leaves errors of a method without a lock to the caller', async () => {
    given = false;
    await expect(shop.sell()).rejects.toThrow('of the method');
  });

  it('may be neither an asynchronous function nor a generator', () => {
    const decorate = (when: unknown) => () => {
      class Wrong {
        @Locked('shop', { when: when as () => boolean })
        async buy(): Promise<void> {}
      }
      return Wrong;
    };
    const allowed = 'expected a function that returns true or false, not a promise';
    expect(decorate(async () => true)).toThrow(allowed);
    expect(decorate(function* () {})).toThrow(allowed);
    expect(decorate(true)).toThrow(allowed);
    expect(decorate(undefined)).not.toThrow();
  });

  it('refuses an Observable that is not declared, as with the lock', async () => {
    await expect(shop.undeclared()).rejects.toThrow('declare `Observable<…>` as its return type');
  });

  it('leaves the locks around the call as they are', async () => {
    await locks.using('outer', async (lock) => expect(await shop.outer(locks)).toBe(lock));
    expect(await shop.outer(locks)).toBeUndefined();
  });

  describe('of an Observable', () => {
    it('decides at each subscription', async () => {
      expect((await firstValueFrom(shop.feed(true)))?.resource).toBe('feed');
      const lock = await locks.acquire('feed');
      expect(await firstValueFrom(shop.feed(false))).toBeUndefined();
      await expect(firstValueFrom(shop.feed(true))).rejects.toThrow(LockTimeoutError);
      await lock.release();
    });

    it('passes an unsubscription on', async () => {
      let hasEnded = false;
      const subscription = shop.endless(() => (hasEnded = true)).subscribe();
      await soon();
      expect(hasEnded).toBe(false);
      subscription.unsubscribe();
      expect(hasEnded).toBe(true);
    });

    it('does not call the method of a subscriber that has left', async () => {
      shop
        .endless(() => undefined)
        .subscribe()
        .unsubscribe();
      await soon();
      expect(shop.calls).toBe(0);
    });

    it('gives the subscriber the error of a wrong result', async () => {
      given = 'yes';
      await expect(firstValueFrom(shop.stream())).rejects.toThrow(LockConfigError);
      given = false;
      expect(await firstValueFrom(shop.stream())).toBe('streamed');
    });
  });
});
