import { describe, it } from '@jest/globals';
import { contend } from './timestamp-contention.js';

describe('timestamp() in seconds beside clients in other languages', () => {
  it.each([true, false])(
    'loses no update of a counter, expiries included, scripts: %s',
    (scripts) => contend('s', scripts),
    60_000,
  );
});
