// Makes a clean dist: the library twice, as ES modules and as CommonJS, each folder marked with its type.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(fileURLToPath(import.meta.url));
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');

const compile = (project) =>
  new Promise((resolve, reject) => {
    spawn(process.execPath, [tsc, '-p', project], { cwd: root, stdio: 'inherit' })
      .on('error', reject)
      .on('exit', (code) => (code === 0 ? resolve() : reject(new Error(`tsc -p ${project} failed`))));
  });

const formats = { esm: 'module', cjs: 'commonjs' };

rmSync(join(root, 'dist'), { recursive: true, force: true });
try {
  await Promise.all(Object.keys(formats).map((format) => compile(`tsconfig.${format}.json`)));
  for (const [format, type] of Object.entries(formats)) {
    writeFileSync(join(root, 'dist', format, 'package.json'), `${JSON.stringify({ type })}\n`);
  }
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
