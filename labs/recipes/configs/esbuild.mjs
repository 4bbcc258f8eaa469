import { build } from 'esbuild';

await build({
  entryPoints: ['dist/main.js'], // compiled by tsc or SWC: esbuild writes no decorator metadata
  outfile: 'bundle/main.mjs',
  bundle: true,
  platform: 'node',
  format: 'esm',
  packages: 'external',
  minify: true,
  keepNames: true,
});
