import { afterAll, beforeAll } from '@jest/globals';
import type { ServerManualClock } from '../../support/server-clock/server-manual-clock.js';
import { needWallClocks } from '../../support/server-clock/shim.js';
import { StoppedServers } from '../../support/server-clock/stopped-servers.js';
import { clockOfApps, useServer } from './app.js';

needWallClocks();

/**
 * Lets the applications of a file use a server whose clock stands still. Returns a function that gets the clock of a
 * test, which is theirs as well.
 */
export function onStoppedServer(): () => ServerManualClock {
  let servers: StoppedServers;
  beforeAll(async () => {
    servers = await StoppedServers.start();
    useServer(servers);
  });
  afterAll(async () => {
    useServer(undefined);
    await servers.stop();
  });
  return () => clockOfApps() as ServerManualClock;
}
