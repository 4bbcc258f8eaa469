import { commandsIn, sectionOf } from './pages.js';

/** Returns what the documentation lists for `redisson()`, as arguments of `ACL SETUSER`. */
export function redissonCommands(): readonly string[] {
  return commandsIn(sectionOf('SECURITY.md', '`redisson()`')).map((command) => `+${command}`);
}
