import type { Clock } from './clock.js';

/** Resolves once the event loop has read what had arrived at its sockets, for example after it was blocked. */
export function repliesRead(clock: Clock): Promise<void> {
  // The first timer may fire before the sockets are read. The second one cannot.
  return new Promise((resolve) => clock.schedule(0, () => clock.schedule(0, resolve)));
}
