import { checkValue, type OptionRule } from '../core/checks/check-options.js';

/** Allows the name of a module instance. */
export const instanceName: OptionRule = {
  allowed: 'the name of a module instance, a string that is not empty',
  fits: (value) => typeof value === 'string' && value !== '',
};

/**
 * Returns the name of a module instance.
 *
 * @param place where the name was given, for the error.
 * @throws LockConfigError if the name is not allowed.
 */
export function checkInstanceName(place: string, name: string): string {
  checkValue(place, 'name', name, instanceName);
  return name;
}
