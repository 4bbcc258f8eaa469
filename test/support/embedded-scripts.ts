import { scripts as fence } from '../../lib/fence/scripts.js';
import { scripts as redis } from '../../lib/redis/scripts.js';
import { scripts as quorum } from '../../lib/stores/quorum/scripts.js';
import { scripts as redisson } from '../../lib/stores/redisson/scripts.js';
import { scripts as timestamp } from '../../lib/stores/timestamp/scripts.js';
import { scripts as token } from '../../lib/stores/token/scripts.js';

const folders = { fence, redis, quorum, redisson, timestamp, token };

/** All scripts of the library, named by folder and file: `tokenAcquire` is `lib/stores/token/scripts/acquire.lua`. */
export const embeddedScripts: ReadonlyMap<string, string> = new Map(
  Object.entries(folders).flatMap(([folder, scripts]) =>
    Object.entries(scripts).map(([name, { lua }]) => [`${folder}${name[0].toUpperCase()}${name.slice(1)}`, lua]),
  ),
);
