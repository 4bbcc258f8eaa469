import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Returns the commands that the documentation lists for a user of `redisson()` with an ACL, in the form of ACL SETUSER.
 */
export function redissonCommands(): readonly string[] {
  const page = readFileSync(join(__dirname, '../../docs/algorithms.md'), 'utf8');
  const wants = /What it costs in permissions: ([^]*?)\. A client/.exec(page)?.[1] ?? '';
  return [...wants.matchAll(/`([A-Z]+)`/g)].map(([, command]) => `+${command.toLowerCase()}`);
}
