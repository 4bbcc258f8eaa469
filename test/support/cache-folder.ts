import { lstatSync, mkdirSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';

/** Returns a folder that only this user can write. Binaries from any other folder are never run. */
export function cacheFolder(env: NodeJS.ProcessEnv): string {
  const uid = process.getuid?.();
  const places = [
    join(env.XDG_CACHE_HOME || join(env.HOME || homedir(), '.cache'), 'nestjs-redis-lock'),
    join(tmpdir(), `nestjs-redis-lock-${uid}`),
  ];
  for (const place of places) {
    try {
      mkdirSync(place, { recursive: true, mode: 0o700 });
      if (lstatSync(place).uid === uid) return place;
    } catch {
      continue;
    }
  }
  throw new Error(`cannot write to ${places.join(' or ')}`);
}
