import { expect, it } from '@jest/globals';
import { formatDuration } from '../../../lib/cli/duration.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

it.each([
  [-5, '0 ms'],
  [0, '0 ms'],
  [850.4, '850 ms'],
  [999.6, '1.0 s'],
  [4_240, '4.2 s'],
  [59_940, '59.9 s'],
  [59_960, '1 min 0 s'],
  [185_000, '3 min 5 s'],
  [HOUR - 400, '1 h 0 min'],
  [2 * HOUR + 10 * MINUTE, '2 h 10 min'],
  [24 * HOUR - 20_000, '1 d 0 h'],
  [76 * HOUR, '3 d 4 h'],
  [Infinity, 'unlimited'],
])('%d ms are %s', (ms, shown) => {
  expect(formatDuration(ms)).toBe(shown);
});
