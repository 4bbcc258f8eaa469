// Lets a child process run the sources as the next wire version, which no release has yet: like typescript-hooks.mjs,
// with another number in the two files that have it.
import { register } from 'node:module';
import { isMainThread } from 'node:worker_threads';
import { load as loadSource, resolve } from './typescript-hooks.mjs';

if (isMainThread) register(import.meta.url);

const HAVE_VERSION = /\/lib\/(?:redis\/wire|stores\/token\/(?:scripts|token-scripts|queue-entry))\.ts$/;

export { resolve };

export async function load(url, context, next) {
  const loaded = await loadSource(url, context, next);
  if (!HAVE_VERSION.test(url)) return loaded;
  const source = loaded.source.replaceAll('v1-', 'v2-').replace('WIRE_VERSION = 1', 'WIRE_VERSION = 2');
  return { ...loaded, source };
}
