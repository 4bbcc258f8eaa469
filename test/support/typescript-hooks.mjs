// Lets a child process run the sources: `node --import ./typescript-hooks.mjs worker.ts`.
import { existsSync, readFileSync } from 'node:fs';
import { register } from 'node:module';
import { fileURLToPath } from 'node:url';
import { isMainThread } from 'node:worker_threads';
import { transformSync } from '@swc/core';
import entryPoints from '../../tools/entry-points.cjs';

const jsc = {
  target: 'es2022',
  keepClassNames: true,
  parser: { syntax: 'typescript', decorators: true },
  transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: false },
};

if (isMainThread) register(import.meta.url);

const root = new URL('../../', import.meta.url);

/** Resolves `.js` imports to sources, and the package's name to its entry points. */
export function resolve(specifier, context, next) {
  const entry = entryPoints.modules[specifier];
  if (entry !== undefined) return next(new URL(entry, root).href, context);
  if (!/^\.{1,2}\/.*\.js$/.test(specifier)) return next(specifier, context);
  const source = new URL(specifier.replace(/\.js$/, '.ts'), context.parentURL);
  return next(existsSync(source) ? source.href : specifier, context);
}

export function load(url, context, next) {
  if (!url.endsWith('.ts')) return next(url, context);
  const filename = fileURLToPath(url);
  const options = { filename, swcrc: false, sourceMaps: 'inline', module: { type: 'es6' }, jsc };
  const { code } = transformSync(readFileSync(filename, 'utf8'), options);
  return { format: 'module', shortCircuit: true, source: code };
}
