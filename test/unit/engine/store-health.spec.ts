import { beforeEach, describe, expect, it } from '@jest/globals';
import { LockUnavailableError } from 'nestjs-redis-lock';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { StoreHealth } from '../../../lib/engine/store-health.js';
import { UnansweredError } from '../../../lib/contract/store.js';

let warnings: string[];
let infos: string[];
let clock: ManualClock;
beforeEach(async () => {
  warnings = [];
  infos = [];
  clock = new ManualClock();
  // At the time 0, the sum and the difference of two times would be the same.
  await clock.advance(1_000);
});

const log = { warn: (message: string) => warnings.push(message), info: (message: string) => infos.push(message) };
/** From then on, trouble that was not seen is forgotten. */
const MINUTES_10 = 600_000;
const silent = new UnansweredError('no reply');
const now = (): number => clock.now();
const cannotBeReached = (why: string, at = ''): unknown =>
  expect.stringMatching(new RegExp(`cannot be reached${at && ` at ${at}`}, .*: ${why}$`));

describe('StoreHealth of one server', () => {
  let health: StoreHealth;
  beforeEach(() => void (health = new StoreHealth(log, now)));

  it('names the store in its lines and its outages', () => {
    health = new StoreHealth(log, now, undefined, undefined, undefined, 'redis://a:1');
    health.onUnreachable(new Error('refused'));
    expect(warnings).toEqual([cannotBeReached('refused', 'redis://a:1')]);
    expect(health.outage('goods:300')).toMatchObject({ place: 'redis://a:1' });
    health.onReachable();
    expect(infos).toEqual(['Redis can be reached again at redis://a:1 after 0 ms.']);
  });

  it('keeps the last error until there is a reply', () => {
    const [first, last] = [new Error('reset'), new Error('refused')];
    health.onUnreachable(first);
    health.onUnreachable(last);
    health.onUnreachable(silent);
    expect(health.outageOf('goods:300')).toBe(last);
    health.onReachable();
    expect(health.outageOf('goods:300')).toBeUndefined();
    expect(infos).toEqual(['Redis can be reached again after 0 ms.']);
  });
});

describe('an outage of one server', () => {
  let health: StoreHealth;
  let seen: number;
  const down = (): void => health.onUnreachable(new Error('refused'));
  const refuse = (refusal: string, permanent = false): void =>
    health.onFailed('acquire', 'goods:300', new LockUnavailableError('no', { refusal, permanent }));
  beforeEach(() => {
    seen = 0;
    health = new StoreHealth(log, now, undefined, undefined, () => (seen += 1));
  });

  it('counts from when it was seen first to when it was seen last', async () => {
    expect([health.isAnySilent, health.outage('goods:300')]).toEqual([false, undefined]);
    down();
    await clock.advance(400);
    expect(health.outage('goods:300')).toMatchObject({ seenForMs: 0, lastsMs: 400, why: 'refused' });
    down();
    await clock.advance(100);
    expect(health.outage('goods:300')).toMatchObject({ seenForMs: 400, lastsMs: 500 });
    expect([health.isAnySilent, seen]).toEqual([true, 2]);
    health.onReply('goods:300');
    expect([health.isAnySilent, health.outage('goods:300')]).toEqual([false, undefined]);
  });

  it('is assumed to go on for a second after it was seen, or after a request was sent', async () => {
    down();
    await clock.advance(1_000);
    expect(health.outage('goods:300')).toBeUndefined();
    health.onRetry('goods:300');
    expect(health.outage('goods:300')).toBeDefined();
    await clock.advance(1_000);
    expect(health.outage('goods:300')).toBeUndefined();
  });

  it('does not begin if the server has refused the connection by an error reply', () => {
    health.onUnreachable(Object.assign(new Error('WRONGPASS invalid password'), { name: 'ReplyError' }));
    expect([health.isAnySilent, health.outage('goods:300')]).toEqual([true, undefined]);
  });

  it('begins again if it was not seen for 10 s, and the error still names its whole time', async () => {
    down();
    await clock.advance(10_000);
    down();
    expect(health.outage('goods:300')).toMatchObject({ seenForMs: 0, lastsMs: 10_000 });
  });

  it('by refusals counts those that concern all keys, until the next reply', async () => {
    for (const refusal of ['READONLY', 'TRYAGAIN', 'NOPERM']) {
      refuse(refusal, refusal === 'NOPERM');
      await clock.advance(300);
      refuse(refusal, refusal === 'NOPERM');
      expect([refusal, health.refusesForMs('goods:1')]).toEqual([refusal, refusal === 'READONLY' ? 300 : 0]);
      health.onReply('goods:2');
      expect(health.refusesForMs('goods:1')).toBe(0);
    }
  });
});

describe('StoreHealth of several servers', () => {
  let health: StoreHealth;
  // The first letter of a key is its server. `?` stands for an unknown server.
  beforeEach(() => void (health = new StoreHealth(log, now, ([server]) => (server === '?' ? undefined : server))));

  it('warns once in the outage of each server, by its name', () => {
    health.onUnreachable(silent, 'a');
    health.onReply('b1');
    health.onReachable('b');
    health.onUnreachable(silent, 'a');
    health.onUnreachable(new Error('refused'), 'a');
    expect(warnings).toEqual([cannotBeReached('no reply', 'a')]);
    health.onUnreachable(silent, 'b');
    expect(warnings).toEqual([cannotBeReached('no reply', 'a'), cannotBeReached('no reply', 'b')]);
    health.onReply('a1');
    health.onUnreachable(silent, 'b');
    health.onUnreachable(silent, 'a');
    expect(warnings.slice(2)).toEqual([cannotBeReached('no reply', 'a')]);
  });

  it('knows an outage of the whole store until any server replies', () => {
    const none = new Error('no node');
    health.onUnreachable(none);
    health.onUnreachable(silent);
    expect(warnings).toEqual([cannotBeReached('no node')]);
    expect(health.outageOf('b1')).toBe(none);
    health.onReachable('b');
    expect(health.outageOf('b1')).toBeUndefined();
  });
});

describe('the end of an outage', () => {
  let health: StoreHealth;
  beforeEach(() => void (health = new StoreHealth(log, now, ([server]) => (server === '?' ? undefined : server))));

  it('is logged once, with its length', async () => {
    health.onUnreachable(new Error('refused'), 'a');
    await clock.advance(4_200);
    health.onReachable('b');
    expect(infos).toEqual([]);
    health.onReply('a1');
    health.onReply('a2');
    health.onReachable('a');
    expect(infos).toEqual(['Redis can be reached again at a after 4.2 s.']);
  });

  it('is not awaited from a server that was not tried for 10 min', async () => {
    health.onUnreachable(new Error('refused'), 'a');
    await clock.advance(MINUTES_10);
    health.onReply('b1');
    expect(health.outageOf('a1')).toBeUndefined();
    health.onReply('a1');
    expect(infos).toEqual([]);
    health.onUnreachable(new Error('refused'), 'a');
    expect(warnings).toEqual([cannotBeReached('refused', 'a'), cannotBeReached('refused', 'a')]);
  });

  it('leaves nothing behind of servers that are gone', async () => {
    let asked = 0;
    health = new StoreHealth(log, now, (key) => (asked++, key));
    for (let i = 0; i < 150; i++) {
      health.onUnreachable(new Error('refused'), `10.0.0.${i}`);
      health.onFailed('acquire', `10.0.0.${i}`, new LockUnavailableError('READONLY', { refusal: 'READONLY' }));
    }
    await clock.advance(MINUTES_10);
    health.onReply('b');
    asked = 0;
    // Returns at once if nothing is known.
    health.onReply('b');
    expect([asked, warnings.length, infos.length]).toEqual([0, 300, 0]);
  });
});

describe('refused requests', () => {
  let health: StoreHealth;
  // The first letter of a key is its server.
  beforeEach(() => void (health = new StoreHealth(log, now, ([server]) => server)));

  const refusal = (code: string, permanent = false): LockUnavailableError =>
    new LockUnavailableError(`No usable reply: ${code}.`, { refusal: code, permanent });
  const refusals = (code: string, from: string): unknown =>
    expect.stringMatching(new RegExp(`^Redis refuses requests to acquire locks.*: ${from}: No usable reply: ${code}`));

  it('are logged once for each kind and server', () => {
    for (let i = 0; i < 10_000; i++) {
      health.onFailed('acquire', `a${i}`, refusal('OOM'));
      health.onFailed('acquire', `b${i}`, refusal('OOM'));
      health.onFailed('acquire', `a${i}`, refusal('READONLY'));
    }
    expect(warnings).toEqual([refusals('OOM', 'a'), refusals('OOM', 'b'), refusals('READONLY', 'a')]);
  });

  it('are logged again if none was seen for a minute, and count as recent until then', async () => {
    expect(health.recentRefusal()).toBeUndefined();
    health.onFailed('acquire', 'a1', refusal('READONLY'));
    for (let i = 0; i < 10; i++) {
      await clock.advance(59_999);
      expect(health.recentRefusal()).toContain('READONLY');
      health.onFailed('extend', 'a1', refusal('READONLY'));
    }
    expect(warnings).toHaveLength(1);
    await clock.advance(60_000);
    expect(health.recentRefusal()).toBeUndefined();
    health.onFailed('acquire', 'a1', refusal('READONLY'));
    expect(warnings.slice(1)).toEqual([refusals('READONLY', 'a')]);
  });

  it('name the first key if other keys may be accepted', () => {
    health.onFailed('acquire', 'a1', refusal('NOPERM', true));
    health.onFailed('acquire', 'a2', refusal('NOPERM', true));
    expect(warnings).toEqual([expect.stringContaining('to acquire locks, first for a1: ')]);
  });

  it('without a reply are not a refusal, and a store that throws is one', () => {
    health.onFailed('acquire', 'a1', new LockUnavailableError('no reply'));
    expect(warnings).toEqual([]);
    health.onFailed('acquire', 'a1', new TypeError('x is undefined'));
    expect(warnings).toEqual([expect.stringContaining('a: x is undefined')]);
  });

  it.each([null, undefined, 'full'])('of a store that throws %p are logged', (thrown) => {
    health.onFailed('acquire', 'goods:300', thrown);
    expect(warnings).toEqual([expect.stringContaining(String(thrown))]);
  });

  it('are not logged again if the outage was logged with the same reply', () => {
    health.onUnreachable(new Error('NOAUTH Authentication required.'), 'a');
    const error = new LockUnavailableError('No lock (NOAUTH Authentication required.)', { refusal: 'NOAUTH' });
    health.onFailed('acquire', 'a1', error);
    expect(warnings).toHaveLength(1);
  });
});

describe('the servers of a store', () => {
  it('are the whole store, and those that fell silent, until they are gone', () => {
    let at = 0;
    const changes: string[] = [];
    const health = new StoreHealth(
      { warn: () => undefined, info: () => undefined },
      () => at,
      () => undefined,
      (server, isUp, error) => void changes.push(`${server ?? 'all'} ${isUp ? 'up' : `down: ${error?.message}`}`),
    );
    const shown = (): string[] => health.servers().map(({ server, isUp }) => `${server ?? 'all'} ${isUp}`);
    expect(shown()).toEqual(['all true']);
    health.onUnreachable(new Error('refused'), 'a:1');
    health.onUnreachable(new Error('refused'), 'a:1');
    health.onUnreachable(new Error('no majority'));
    expect(shown()).toEqual(['all false', 'a:1 false']);
    health.onReachable('a:1');
    expect(shown()).toEqual(['all true', 'a:1 true']);
    expect(changes).toEqual(['a:1 down: refused', 'all down: no majority', 'a:1 up', 'all up']);
    health.onUnreachable(new Error('refused'), 'a:1');
    at += 601_000;
    expect(shown()).toEqual(['all true']);
    health.onUnreachable(new Error('refused'), 'b:1');
    expect(shown()).toEqual(['all true', 'b:1 false']);
  });

  it('are down as a whole until a server replies, however long nobody tries', () => {
    const health = new StoreHealth(log, now);
    health.onUnreachable(new Error('no majority'));
    clock.jump(MINUTES_10 + 1_000);
    health.onUnreachable(new Error('refused'), 'a:1');
    expect(health.servers()[0]).toEqual({ server: undefined, isUp: false });
    health.onReachable('b:1');
    expect(health.servers()[0]).toEqual({ server: undefined, isUp: true });
  });
});
