import { describe, it } from '@jest/globals';
import { contend } from './timestamp-contention.js';

describe('locks by timestamps in milliseconds, beside clients of the old school', () => {
  it.each([true, false])(
    'a counter loses nothing, expiries included; scripts: %s',
    (scripts) => contend('ms', scripts),
    60_000,
  );
});
