// Makes a child process load another ioredis: `node --import ./ioredis-5-hooks.mjs?<URL of its module>`.
import { register } from 'node:module';
import { isMainThread } from 'node:worker_threads';

if (isMainThread) register(import.meta.url);

const ioredis = decodeURIComponent(new URL(import.meta.url).search.slice(1));

/** Resolves `ioredis` to the module that the URL of these hooks names. */
export function resolve(specifier, context, next) {
  return next(specifier === 'ioredis' ? ioredis : specifier, context);
}
