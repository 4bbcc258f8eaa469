import { readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { EmbeddedScript } from '../../lib/redis/redis-script.js';

const LIB = join(__dirname, '../../lib');

interface Generated {
  readonly scripts: Readonly<Record<string, EmbeddedScript>>;
}

/** All scripts of the library, named by folder and file: `tokenAcquire` is `lib/stores/token/scripts/acquire.lua`. */
export const embeddedScripts: ReadonlyMap<string, string> = new Map(
  readdirSync(LIB, { recursive: true, encoding: 'utf8' })
    .filter((path) => basename(path) === 'scripts.ts')
    .flatMap((path) => {
      // oxlint-disable-next-line typescript/no-require-imports -- the list of files is known at run time only
      const { scripts } = require(join(LIB, path)) as Generated;
      const folder = basename(dirname(path));
      const nameOf = (name: string): string => `${folder}${name[0].toUpperCase()}${name.slice(1)}`;
      return Object.entries(scripts).map(([name, { lua }]) => [nameOf(name), lua] as const);
    }),
);
