import { messageOf } from '../core/errors.js';
import type { LockBoardRequest } from './board-options.js';
import { visibleText } from './visible-text.js';

/** The properties of a user that identify it, best first. */
const NAMES = ['username', 'email', 'name', 'id', 'sub'] as const;

/** Returns who sends a request, as a line of a log shows it. Never throws. */
export function callerOf(request: LockBoardRequest, who: ((request: never) => unknown) | undefined): string {
  if (who !== undefined) {
    try {
      return visibleText(String(who(request as never)));
    } catch (error) {
      return visibleText(`somebody (the option who failed: ${messageOf(error)})`);
    }
  }
  const user: unknown = request.user;
  const address = request.ip ?? 'an unknown address';
  if (typeof user === 'string' && user !== '') return visibleText(`${user} at ${address}`);
  if (typeof user !== 'object' || user === null) return visibleText(address);
  const name = NAMES.map((property) => (user as Record<string, unknown>)[property]).find(isName);
  return visibleText(name === undefined ? address : `${name} at ${address}`);
}

function isName(value: unknown): value is string | number | bigint {
  return (typeof value === 'string' && value !== '') || typeof value === 'number' || typeof value === 'bigint';
}
