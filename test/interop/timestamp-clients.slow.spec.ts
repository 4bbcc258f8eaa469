import { describe, it } from '@jest/globals';
import { contend } from './timestamp-contention.js';

describe('timestamp() in milliseconds beside clients in other languages', () => {
  it.each([true, false])(
    'loses no update of a counter, expiries included, scripts: %s',
    (scripts) => contend('ms', scripts),
    60_000,
  );
});
