import { describe, expect, it, jest } from '@jest/globals';

/** Returns an object whose known properties alone may be read. */
function unread(known: object = {}): never {
  const get = (of: object, property: string | symbol): unknown => {
    if (property in of) return Reflect.get(of, property);
    throw new Error(`${String(property)} was read`);
  };
  return new Proxy(known, { get }) as never;
}

describe('events without a subscriber', () => {
  it('read nothing of a call, its hold and the clock, and so make no object', async () => {
    // Other tests of this process may have left subscribers at the real channels.
    const silent = { hasSubscribers: false };
    const steps = { start: silent, end: silent, asyncStart: silent, asyncEnd: silent, error: silent };
    await jest.isolateModulesAsync(async () => {
      jest.doMock('node:diagnostics_channel', () => ({ channel: () => silent, tracingChannel: () => steps }));
      const { LockEvents } = await import('../../lib/core/events/diagnostics.js');
      const events = new LockEvents('default');
      const grant = unread({ trace: undefined });
      expect(() => {
        events.requested(unread(), unread());
        events.granted(unread({ grant }), unread(), 0);
        events.refused(unread(), unread(), 0, unread());
        events.extended(grant);
        events.lost(grant, unread());
        events.released(grant, unread());
        events.store(undefined, false, unread());
      }).not.toThrow();
    });
  });
});
