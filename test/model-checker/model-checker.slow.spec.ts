import { describe, it } from '@jest/globals';
import { expectSound } from './exploring.js';
import { FULL } from './scenarios.js';

describe('every run of the waiting protocol, with more that goes wrong', () => {
  it.each(FULL)('$name', (scenario) => expectSound(scenario));
});
