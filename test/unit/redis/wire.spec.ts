import { expect, it } from '@jest/globals';
import { WIRE_PREFIX } from '../../../lib/redis/wire.js';
import { scripts } from '../../../lib/stores/token/scripts.js';

it('the scripts have the wire version of the code', () => {
  const check = `if string.sub(text, 1, ${WIRE_PREFIX.length}) == '${WIRE_PREFIX}' then`;
  const checked = Object.entries(scripts).filter(([, { lua }]) => lua.includes('otherWire('));
  expect(checked.map(([name]) => name)).toEqual(
    expect.arrayContaining(['acquire', 'acquireBatch', 'acquireMany', 'release', 'releaseBatch', 'forceRelease']),
  );
  for (const [, { lua }] of checked) expect(lua).toContain(check);
});
