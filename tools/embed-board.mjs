// Writes the files of lib/board/assets/ to lib/board/assets.ts, so that nothing reads files at run time.
//   node tools/embed-board.mjs [--check]
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const FOLDER = join(ROOT, 'lib/board/assets');
const OUTPUT = join(ROOT, 'lib/board/assets.ts');

const read = (file) => readFileSync(join(FOLDER, file), 'utf8').trim();

function readInline(file) {
  const text = read(file);
  const found = /<\/|<!--|\r/.exec(text);
  if (found) throw new Error(`${file} contains ${JSON.stringify(found[0])}, which a browser reads as HTML`);
  return text;
}

try {
  const assets = { page: read('page.html'), style: readInline('board.css'), script: readInline('board.js') };
  const entries = Object.entries(assets).map(([name, text]) => `  ${name}: ${JSON.stringify(text)},\n`);
  const code =
    '// Generated from assets/ by `npm run board`. Edit the files there, not this one.\n\n' +
    `export const assets = {\n${entries.join('')}};\n`;
  if (!process.argv.includes('--check')) writeFileSync(OUTPUT, code);
  else if (!existsSync(OUTPUT) || readFileSync(OUTPUT, 'utf8') !== code) {
    throw new Error(`${relative(ROOT, OUTPUT)} is out of date: npm run board`);
  }
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
