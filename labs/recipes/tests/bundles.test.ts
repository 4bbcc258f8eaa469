import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, it } from 'node:test';
import { home, Project } from './support.js';

const SOLD = 'goods 1 are sold, goods 1 are counted\n';

const UNNAMED = `import { Locked } from 'nestjs-redis-lock';
class Stock { @Locked('goods:<goodsNumber>') async sell(goodsNumber: number): Promise<number> { return goodsNumber; } }
new Stock();
`;

const MINIFY = `import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { transformFileSync } from '@swc/core';

mkdirSync('minified', { recursive: true });
for (const name of readdirSync('src')) {
  const { code } = transformFileSync('src/' + name, {
    swcrc: false,
    minify: true,
    module: { type: 'es6' },
    jsc: {
      target: 'es2022',
      parser: { syntax: 'typescript', decorators: true },
      transform: { legacyDecorator: true, decoratorMetadata: true },
      minify: { compress: true, mangle: true },
    },
  });
  writeFileSync('minified/' + name.replace('.ts', '.js'), code);
}
`;

let project: Project;

before(async () => {
  project = await Project.create('bundles');
  await project.use('stock.service.ts', 'src/stock.service.ts');
  await project.write('src/main.ts', `import { main } from './stock.service.js';\n\nvoid main();\n`);
  await project.write('src/unnamed.ts', UNNAMED);
  await project.tsc();
});

it('has a configuration of webpack whose minified bundle locks', async () => {
  await project.use('../configs/webpack.config.cjs');
  await project.run('webpack/bin/webpack.js', '--config', 'webpack.config.cjs');
  assert.equal(await project.node('dist/main.cjs'), SOLD);
});

it('has a script of esbuild whose minified bundle locks', async () => {
  await project.use('../configs/esbuild.mjs');
  await project.node('esbuild.mjs');
  assert.equal(await project.node('bundle/main.mjs'), SOLD);
});

it('locks in files that SWC has minified', async () => {
  await project.write('minify.mjs', MINIFY);
  await project.node('minify.mjs');
  assert.equal(await project.node('minified/main.js'), SOLD);
});

it('has an error at start for a name that a minifier took away', async () => {
  const script = await readFile(join(home, 'configs/esbuild.mjs'), 'utf8');
  await project.write('unnamed.mjs', script.replaceAll('main', 'unnamed'));
  await project.node('unnamed.mjs');
  await project.write('minify.mjs', MINIFY);
  await project.node('minify.mjs');
  for (const bundle of ['bundle/unnamed.mjs', 'minified/unnamed.js']) {
    await assert.rejects(project.node(bundle), /LockKeyError[^]*minifiers rename parameters/);
  }
});
