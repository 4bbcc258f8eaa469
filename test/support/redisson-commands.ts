import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** What the documentation lists for users with an ACL who lock with `redisson()`, as the ACL takes it. */
export function redissonCommands(): readonly string[] {
  const page = readFileSync(join(__dirname, '../../docs/algorithms.md'), 'utf8');
  const wants = /What it costs in permissions: ([^]*?)\. A client/.exec(page)?.[1] ?? '';
  return [...wants.matchAll(/`([A-Z]+)`/g)].map(([, command]) => `+${command.toLowerCase()}`);
}
