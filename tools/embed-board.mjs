// Writes the page of lib/board/assets/ to lib/board/assets.ts, so that nothing reads files at run time.
//   node tools/embed-board.mjs [--check]
//
// The modules become one script, in the order of MODULES, without their imports, exports and comments. Names are unique
// across them. Nothing is minified.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const FOLDER = join(ROOT, 'lib/board/assets');
const OUTPUT = join(ROOT, 'lib/board/assets.ts');
const MODULES = ['text.js', 'table.js', 'overview.js', 'main.js'];

const read = (file) => readFileSync(join(FOLDER, file), 'utf8');

/** Removes what stands alone on lines: comments, imports, and the word `export`. */
function strip(file) {
  const code = read(file)
    .replaceAll(/^import .* from '.*';\n/gm, '')
    .replaceAll(/^export /gm, '')
    .replaceAll(/^\s*\/\*\*[\s\S]*?\*\/\n/gm, '')
    .replaceAll(/^\s*\/\/.*\n/gm, '')
    .replaceAll(/\n{2,}/g, '\n')
    .trim();
  if (/^(?:import|export)\b/m.test(code)) throw new Error(`${file}: an import or export that is more than one line`);
  return code;
}

/** Names on the first level of the modules would hide each other. */
function checkNames(script) {
  const names = [...script.matchAll(/^(?:async )?(?:function|class|const|let) (\w+)/gm)].map(([, name]) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice) throw new Error(`${twice} is declared twice`);
}

function checkInline(name, text) {
  const found = /<\/|<!--|\r/.exec(text);
  if (found) throw new Error(`${name} contains ${JSON.stringify(found[0])}, which a browser reads as HTML`);
  return text;
}

function generate() {
  const script = checkInline('the script', MODULES.map(strip).join('\n'));
  checkNames(script);
  const style = checkInline('the style sheet', read('board.css').trim());
  const entries = Object.entries({ page: read('page.html'), style, script });
  return (
    '// Generated from assets/ by `npm run board`. Edit the files there, not this one.\n\n' +
    `export const assets: Readonly<Record<'page' | 'style' | 'script', string>> = {\n` +
    entries.map(([name, text]) => `  ${name}: ${JSON.stringify(text)},\n`).join('') +
    '};\n'
  );
}

try {
  const text = generate();
  if (!process.argv.includes('--check')) writeFileSync(OUTPUT, text);
  else if (!existsSync(OUTPUT) || readFileSync(OUTPUT, 'utf8') !== text) {
    throw new Error(`${relative(ROOT, OUTPUT)} is out of date: npm run board`);
  }
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
