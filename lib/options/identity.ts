import { hostname } from 'node:os';
import type { OptionRule } from '../common/check-options.js';
import { isIdentity, LONGEST_IDENTITY } from '../contract/instance-id.js';

/** Allows an identity, or none. */
export const identityRule: OptionRule = {
  allowed: `a string of up to ${LONGEST_IDENTITY} letters, digits and the characters . _ : @ / -`,
  fits: (value) => typeof value === 'string' && isIdentity(value),
};

/** Returns the host name and the process id, such as `api-7f9c-31`. */
export function defaultIdentity(): string {
  const pid = `-${process.pid}`;
  const host = hostName().replace(/[^\w.-]/g, '-') || 'host';
  return host.slice(0, LONGEST_IDENTITY - pid.length) + pid;
}

function hostName(): string {
  try {
    return hostname();
  } catch {
    return '';
  }
}
