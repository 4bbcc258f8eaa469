import { beforeEach, describe, expect, it } from '@jest/globals';
import { StoreHealth } from '../../../../lib/core/store/store-health.js';

let warnings: string[];
beforeEach(() => void (warnings = []));

const warn = (message: string): number => warnings.push(message);
const cannotBeReached = (why: string): unknown => expect.stringMatching(new RegExp(`cannot be reached.*: ${why}$`));

describe('StoreHealth of one server', () => {
  let health: StoreHealth;
  beforeEach(() => void (health = new StoreHealth(warn)));

  it('warns once in an outage, and again in the next one', () => {
    for (let outage = 0; outage < 2; outage++) {
      health.silent('goods:300', 'no reply');
      health.onUnreachable(new Error('refused'));
      health.silent('goods:301', 'no reply');
      health.answered('goods:302');
    }
    expect(warnings).toEqual([cannotBeReached('no reply'), cannotBeReached('no reply')]);
  });

  it('keeps the last error until there is a reply', () => {
    const [first, last] = [new Error('reset'), new Error('refused')];
    health.onUnreachable(first);
    health.onUnreachable(last);
    health.silent('goods:300', 'no reply');
    expect(health.outageOf('goods:300')).toBe(last);
    health.onReachable();
    expect(health.outageOf('goods:300')).toBeUndefined();
  });
});

describe('StoreHealth of several servers', () => {
  let health: StoreHealth;
  // The first letter of a key is its server. `?` stands for an unknown server.
  beforeEach(() => void (health = new StoreHealth(warn, ([server]) => (server === '?' ? undefined : server))));

  it('warns once in the outage of each server, by its name', () => {
    health.silent('a1', 'no reply');
    health.answered('b1');
    health.onReachable('b');
    health.silent('a2', 'no reply');
    health.onUnreachable(new Error('refused'), 'a');
    expect(warnings).toEqual([cannotBeReached('a: no reply')]);
    health.silent('b1', 'no reply');
    expect(warnings).toEqual([cannotBeReached('a: no reply'), cannotBeReached('b: no reply')]);
    health.answered('a1');
    health.silent('b2', 'no reply');
    health.silent('a3', 'no reply');
    expect(warnings.slice(2)).toEqual([cannotBeReached('a: no reply')]);
  });

  it("returns the outage of the key's server only", () => {
    const refused = new Error('refused');
    health.onUnreachable(refused, 'a');
    expect([health.outageOf('a1'), health.outageOf('b1')]).toEqual([refused, undefined]);
  });

  it('does not warn of one server during an outage of the whole store', () => {
    const none = new Error('no node');
    health.onUnreachable(none);
    health.onUnreachable(new Error('refused'), 'a');
    health.silent('?', 'no reply');
    expect(warnings).toEqual([cannotBeReached('no node')]);
    expect(health.outageOf('b1')).toBe(none);
    health.onReachable('b');
    expect(health.outageOf('b1')).toBeUndefined();
    health.silent('a1', 'no reply');
    health.silent('b1', 'no reply');
    expect(warnings.slice(1)).toEqual([cannotBeReached('b: no reply')]);
  });
});
