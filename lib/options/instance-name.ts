import type { OptionRule } from '../common/check-options.js';

/** Allows the name of a module instance. */
export const instanceName: OptionRule = {
  allowed: 'the name of a module instance, a string that is not empty',
  fits: (value) => typeof value === 'string' && value !== '',
};
