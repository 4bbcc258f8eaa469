import { beforeEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, Locked, LockConfigError, type Lock, type LockService, LockTimeoutError } from 'nestjs-redis-lock';
import { createTestLocks, withLocks } from 'nestjs-redis-lock/testing';
import { firstValueFrom, NEVER, Observable, of, tap } from 'rxjs';
import { deferred } from '../../support/async.js';

interface Order {
  readonly id?: number;
  readonly items: number;
}

/** What a `when` of the tests returns instead of a boolean. */
let answer: unknown;

class Shop {
  readonly found: (Lock | undefined)[] = [];
  isOpen = true;

  @Locked('order:<order.id>', { when: (order: Order) => order.items > 1 })
  async pack(_order: Order, @CurrentLock() lock?: Lock): Promise<string> {
    this.found.push(lock);
    return 'packed';
  }

  @Locked('shop', {
    when(this: Shop) {
      return this.isOpen;
    },
  })
  async close(@CurrentLock() lock?: Lock): Promise<Lock | undefined> {
    return lock;
  }

  @Locked('shop', { when: () => answer as boolean, onBusy: 'skip', onUnavailable: 'skip' })
  async ask(): Promise<string> {
    throw new LockTimeoutError('of the method');
  }

  @Locked('feed', { when: (isLocked: boolean) => isLocked })
  feed(_isLocked: boolean, @CurrentLock() lock?: Lock): Observable<Lock | undefined> {
    return of(lock).pipe(tap((found) => this.found.push(found)));
  }

  @Locked('feed', { when: () => false })
  endless(onEnd: () => void): Observable<never> {
    return new Observable(() => {
      const inner = NEVER.subscribe();
      return () => {
        inner.unsubscribe();
        onEnd();
      };
    });
  }

  @Locked('feed', { when: () => answer as boolean, onBusy: () => of('busy') })
  answered(): Observable<string> {
    return of('streamed');
  }

  @Locked('feed', { when: () => false })
  async undeclared(): Promise<unknown> {
    return of(1);
  }

  @Locked('outer', { when: () => false })
  async assertOuter(locks: LockService): Promise<Lock | undefined> {
    return locks.current('outer');
  }
}

describe('when', () => {
  let locks: LockService;
  let shop: Shop;

  beforeEach(() => {
    answer = true;
    locks = createTestLocks({ waitMs: 0 });
    shop = withLocks(new Shop(), locks);
  });

  it('runs the method under the lock if it returns true', async () => {
    expect(await shop.pack({ id: 1, items: 2 })).toBe('packed');
    expect(shop.found[0]?.resource).toBe('order:1');
    await locks.using('order:1', async () => undefined);
    await using _other = await createTestLocks().acquire('order:1');
  });

  it('runs the method without the lock if it returns false, also while others hold it', async () => {
    await using _other = await locks.acquire('order:1');
    expect(await shop.pack({ id: 1, items: 1 })).toBe('packed');
    expect(shop.found).toEqual([undefined]);
    await expect(shop.pack({ id: 1, items: 2 })).rejects.toThrow(LockTimeoutError);
  });

  it('is called before the key is made', async () => {
    expect(await shop.pack({ items: 1 })).toBe('packed');
    await expect(shop.pack({ items: 2 })).rejects.toMatchObject({ code: 'LOCK_KEY' });
  });

  it('replaces a lock that the caller has passed by hand', async () => {
    await using lock = await locks.acquire('order:2');
    await shop.pack({ id: 1, items: 1 }, lock);
    expect(shop.found).toEqual([undefined]);
  });

  it('is called on the instance', async () => {
    expect((await shop.close())?.resource).toBe('shop');
    shop.isOpen = false;
    expect(await shop.close()).toBeUndefined();
  });

  it.each([undefined, null, 0, 1, 'false', Promise.resolve(false), Promise.reject(new Error('late'))])(
    'refuses a result of %p, and does not call the method',
    async (given) => {
      answer = given;
      const refusal = shop.ask();
      await expect(refusal).rejects.toThrow(LockConfigError);
      await expect(refusal).rejects.toThrow(/Shop\.ask: the result of the when function is .*allowed is true or false/);
    },
  );

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
    answer = false;
    await expect(shop.ask()).rejects.toThrow('of the method');
  });

  it('may be no asynchronous function and no generator', () => {
    const decorate = (when: unknown) => () => {
      class Wrong {
        @Locked('shop', { when: when as () => boolean })
        async buy(): Promise<void> {}
      }
      return Wrong;
    };
    const allowed = 'allowed is a function that returns true or false, and no promise';
    expect(decorate(async () => true)).toThrow(allowed);
    expect(decorate(function* () {})).toThrow(allowed);
    expect(decorate(true)).toThrow(allowed);
    expect(decorate(undefined)).not.toThrow();
  });

  it('refuses an Observable that is not declared in both cases', async () => {
    await expect(shop.undeclared()).rejects.toThrow('declare `Observable<…>` as its return type');
  });

  it('leaves the locks around the call as they are', async () => {
    await locks.using('outer', async (lock) => expect(await shop.assertOuter(locks)).toBe(lock));
    expect(await shop.assertOuter(locks)).toBeUndefined();
  });

  describe('of an Observable', () => {
    it('decides at each subscription', async () => {
      expect((await firstValueFrom(shop.feed(true)))?.resource).toBe('feed');
      await using _other = await locks.acquire('feed');
      expect(await firstValueFrom(shop.feed(false), { defaultValue: 'empty' })).toBeUndefined();
      await expect(firstValueFrom(shop.feed(true))).rejects.toThrow(LockTimeoutError);
    });

    it('passes an unsubscription on', async () => {
      const ended = deferred();
      const begun = deferred();
      const subscription = shop.endless(ended.resolve).subscribe();
      setImmediate(begun.resolve);
      await begun.promise;
      subscription.unsubscribe();
      await ended.promise;
    });

    it('does not call the method of a subscriber that has left', async () => {
      shop.feed(false).subscribe().unsubscribe();
      await new Promise((resolve) => setImmediate(resolve));
      expect(shop.found).toEqual([]);
    });

    it('gives the subscriber the error of a wrong result', async () => {
      answer = 'yes';
      await expect(firstValueFrom(shop.answered())).rejects.toThrow(LockConfigError);
      answer = false;
      expect(await firstValueFrom(shop.answered())).toBe('streamed');
    });
  });
});
