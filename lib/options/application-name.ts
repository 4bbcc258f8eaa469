import { readFileSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';

/** What npm allows as the name of a package, and older names. */
const NAME = /^[\w@./~-]{1,214}$/;

/**
 * Returns the name of the application: that of the package which has the main file of the process. Undefined if it
 * is not sure, such as for a program of `node_modules` that starts the application.
 *
 * @param main the path of the main file.
 */
export function applicationName(main: string | undefined = process.argv[1]): string | undefined {
  if (main === undefined || !isAbsolute(main) || /[\\/]node_modules[\\/]/.test(main)) return undefined;
  for (let folder = dirname(main), last = ''; folder !== last; last = folder, folder = dirname(folder)) {
    const name = nameIn(join(folder, 'package.json'));
    if (name !== undefined) return isApplicationName(name) ? name : undefined;
  }
  return undefined;
}

/** Returns whether a text may be the name of an application. A text from Redis may be anything. */
export function isApplicationName(text: unknown): text is string {
  return typeof text === 'string' && NAME.test(text);
}

/** Returns the name in a package's file. Undefined if there is no file, or no name in it. */
function nameIn(file: string): unknown {
  try {
    return (JSON.parse(readFileSync(file, 'utf8')) as { name?: unknown } | null)?.name;
  } catch {
    return undefined;
  }
}
