import { describe, it } from '@jest/globals';
import { expectSound } from '../support/model-checker/exploring.js';
import { TESTED } from '../support/model-checker/scenarios.js';

describe('every run of the waiting protocol', () => {
  it.each(TESTED)('$name: is sound, and the scripts do as the table', (scenario) => expectSound(scenario));
});
