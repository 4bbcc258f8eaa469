import { describe, expect, it } from '@jest/globals';
import { contend, pollBesideBusyCallers, VISITS } from './timestamp-contention.js';

describe.each([true, false])('timestamp() beside clients in other languages, scripts: %s', (scripts) => {
  it.each(['s', 'ms'] as const)('loses no update of a counter, expiries included, in %s', (unit) =>
    contend(unit, scripts),
  );

  it('lets clients in that poll every 100 ms beside busy callers', async () => {
    const visits = await pollBesideBusyCallers(scripts);
    expect(new Set(visits)).toEqual(new Set([VISITS]));
  });
});
