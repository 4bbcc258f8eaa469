import { describe, it } from '@jest/globals';
import { expectSound } from '../support/model-checker/exploring.js';
import { FULL } from '../support/model-checker/scenarios.js';

describe('every run of the waiting protocol, with more that goes wrong', () => {
  it.each(FULL)('$name', (scenario) => expectSound(scenario));
});
