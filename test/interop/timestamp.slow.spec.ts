import { describe, expect, it } from '@jest/globals';
import { contend, pollBesideBusyCallers, VISITS } from './timestamp-contention.js';

describe('timestamp() in seconds beside clients in other languages', () => {
  it.each([true, false])('loses no update of a counter, expiries included, scripts: %s', (scripts) =>
    contend('s', scripts),
  );
});

describe('timestamp() with busy callers', () => {
  it.each([true, false])('lets clients in that poll every 100 ms, scripts: %s', async (scripts) => {
    const visits = await pollBesideBusyCallers(scripts);
    expect(new Set(visits)).toEqual(new Set([VISITS]));
  });
});
