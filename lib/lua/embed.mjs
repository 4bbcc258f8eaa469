// Checks the Lua scripts of a folder and embeds them in its index.ts, so that nothing reads files at runtime.
//   node lib/lua/embed.mjs [--check] [folder]
// The header of a script is its contract; the rules on KEYS and redis.call keep scripts portable (managed Redis,
// clusters): a key that is not a literal KEYS[n] is refused by some vendors.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const TOKEN = new RegExp(
  [
    String.raw`(?<comment>--\[(?<c>=*)\[[\s\S]*?\]\k<c>\]|--(?!\[=*\[)[^\n]*)`,
    String.raw`(?<string>"(?:\\[\s\S]|[^"\\\n])*"|'(?:\\[\s\S]|[^'\\\n])*'|\[(?<s>=*)\[[\s\S]*?\]\k<s>\])`,
    String.raw`(?<space>\s+)`,
    String.raw`(?<name>[A-Za-z_]\w*)`,
    String.raw`(?<number>0[xX][\da-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)`,
    String.raw`(?<symbol>\.\.\.|\.\.|[=~<>]=|[-+*/%^#=<>(){}[\];:,.])`,
  ].join('|'),
  'y',
);
const KINDS = ['comment', 'string', 'space', 'name', 'number', 'symbol'];
const KEYLESS = new Set(['TIME', 'PUBSUB', 'PUBLISH', 'SPUBLISH']);
const ALL_KEYS = new Set(['DEL', 'UNLINK', 'EXISTS', 'TOUCH', 'MGET', 'RENAME', 'RENAMENX']);

function tokenize(source) {
  const tokens = [];
  for (TOKEN.lastIndex = 0; TOKEN.lastIndex < source.length;) {
    const at = TOKEN.lastIndex;
    const match = TOKEN.exec(source);
    if (!match) throw new Error(`line ${source.slice(0, at).split('\n').length}: cannot read ${source[at]}`);
    tokens.push({ kind: KINDS.find((kind) => match.groups[kind] !== undefined), text: match[0] });
  }
  return tokens;
}

/** The script without comments, blank lines and indentation; strings stay as they are. */
function strip(source) {
  const code = tokenize(source).map(({ kind, text }) => {
    if (kind === 'comment') return ' ';
    if (kind === 'space') return text.includes('\n') ? '\n' : ' ';
    return text;
  });
  const lean = [];
  for (const part of code) {
    const last = lean.at(-1);
    if ((part === ' ' || part === '\n') && (last === ' ' || last === '\n')) {
      if (part === '\n') lean[lean.length - 1] = part;
    } else lean.push(part);
  }
  return lean.join('').trim();
}

/** Replaces each `--- @include name` line by includes/name.lua, once a script; `at KEYS[n]` puts another key in the place of its only one. */
function expand(file, stack = [], seen = new Set()) {
  const name = basename(file, '.lua');
  if (stack.includes(name)) throw new Error(`include cycle: ${[...stack, name].join(' > ')}`);
  if (!existsSync(file)) throw new Error(`no such include: ${name}`);
  return readFileSync(file, 'utf8').replace(/^--- @include (\S+)(?: at (KEYS\[\d+\]))?[ \t]*$/gm, (_, include, key) => {
    const path = join(dirname(file), stack.length ? '' : 'includes', `${include}.lua`);
    const text = seen.has(include) && ![...stack, name].includes(include) ? '' : expand(path, [...stack, name], seen);
    seen.add(include);
    return key === undefined ? text : text.replaceAll(/KEYS\[\d+\]/g, key);
  });
}

/** Reads the contract at the top: what it guarantees, `KEYS[n] name`, `ARGV[n] name`, a `returns` line. */
function readHeader(source) {
  const text = /^--\[\[([\s\S]*?)\]\]/.exec(source)?.[1];
  if (text === undefined) throw new Error('must begin with a --[[ header ]]');
  const guarantee = text.split(/\b(?:KEYS|ARGV)\[|^\s*returns\b/m)[0].trim();
  if (!/\w+\s+\w+/.test(guarantee)) throw new Error('the header must first say what the script guarantees');
  if (!/^\s*returns[ \t]+\S/m.test(text)) throw new Error('the header needs a line "returns …"');
  const unnamed = /\b(?:KEYS|ARGV)\[\d+\](?!\s+(?!(?:KEYS|ARGV)\[)[A-Za-z])/.exec(text);
  if (unnamed) throw new Error(`the header must name ${unnamed[0]}`);
  return new Set(text.match(/\b(?:KEYS|ARGV)\[\d+\]/g));
}

function checkDocumented(documented, used) {
  for (const slot of used) if (!documented.has(slot)) throw new Error(`${slot} is used but not in the header`);
  for (const slot of documented) if (!used.has(slot)) throw new Error(`${slot} is in the header but not used`);
}

/** How many of KEYS or ARGV a script takes: they must be numbered without gaps from 1. */
function count(array, documented) {
  const size = [...documented].filter((slot) => slot.startsWith(array)).length;
  for (let n = 1; n <= size; n++) if (!documented.has(`${array}[${n}]`)) throw new Error(`${array}[${n}] is missing`);
  return size;
}

/** Splits the arguments of the call whose "(" stands at `open`; answers them with the index of its ")". */
function readArguments(code, open) {
  const args = [[]];
  let depth = 0;
  for (let i = open; i < code.length; i++) {
    if ('([{'.includes(code[i]) && depth++ === 0) continue;
    if (')]}'.includes(code[i]) && --depth === 0) return { args, close: i };
    if (code[i] === ',' && depth === 1) args.push([]);
    else args.at(-1).push(code[i]);
  }
  throw new Error('redis.call without its )');
}

function checkCall(args) {
  const [command, ...rest] = args.map((tokens) => tokens.join(''));
  const name = /^(['"])(\w+)\1$/.exec(command)?.[2].toUpperCase();
  if (!name) throw new Error(`redis.call needs a literal command, found ${command}`);
  if (name === 'SELECT') throw new Error('SELECT is not portable');
  if (KEYLESS.has(name)) return;
  const keys = ALL_KEYS.has(name) ? rest : rest.slice(0, 1);
  if (keys.length === 0) throw new Error(`${name} has no key`);
  for (const key of keys) {
    if (!/^KEYS\[\d+\]$/.test(key)) throw new Error(`${name}: a key must be a literal KEYS[n], found ${key}`);
  }
}

/** The one include that may put other keys in the place of KEYS: the rest of its script goes by the rules as ever. */
const EACH_LOCK = join(dirname(fileURLToPath(import.meta.url)), 'includes', 'each-lock.lua');

/** Answers the KEYS[n] and ARGV[n] that the code uses. */
function checkBody(body) {
  const code = tokenize(body.replace(strip(readFileSync(EACH_LOCK, 'utf8')), ''))
    .filter(({ kind }) => kind !== 'space' && kind !== 'comment')
    .map(({ text }) => text);
  const keysOfCalls = new Set();
  code.forEach((text, i) => {
    if (text !== 'redis') return;
    const member = code[i + 2];
    if (code[i + 1] !== '.') throw new Error('redis may only be used as redis.name');
    if (member === 'log') throw new Error('redis.log is not portable');
    if (member !== 'call' && member !== 'pcall') return;
    if (code[i + 3] !== '(') throw new Error(`redis.${member} must be called where it is named`);
    const { args, close } = readArguments(code, i + 3);
    checkCall(args);
    for (let at = i + 4; at < close; at++) if (code[at] === 'KEYS') keysOfCalls.add(at);
  });
  const used = new Set();
  code.forEach((text, i) => {
    if (text === 'KEYS' && !keysOfCalls.has(i))
      throw new Error('KEYS[n] may only stand in a redis.call, never in a copy');
    if (text === 'os' && code[i + 1] === '.') throw new Error("no clock but redis.call('TIME')");
    if (text !== 'KEYS' && text !== 'ARGV') return;
    const slot = code.slice(i, i + 4).join('');
    if (!/^\w+\[\d+\]$/.test(slot)) throw new Error(`${text} needs a literal index`);
    used.add(slot);
  });
  return used;
}

function readScript(file) {
  const documented = readHeader(readFileSync(file, 'utf8'));
  const body = strip(expand(file));
  checkDocumented(documented, checkBody(body));
  return { keys: count('KEYS', documented), args: count('ARGV', documented), lua: body };
}

function generate(folder) {
  const entries = readdirSync(folder)
    .filter((file) => file.endsWith('.lua'))
    .toSorted()
    .map((file) => {
      try {
        const { keys, args, lua } = readScript(join(folder, file));
        const name = basename(file, '.lua').replace(/-(\w)/g, (_, letter) => letter.toUpperCase());
        return `  ${name}: { keys: ${keys}, args: ${args}, lua: ${JSON.stringify(lua)} },\n`;
      } catch (error) {
        throw new Error(`${file}: ${error.message}`, { cause: error });
      }
    });
  return (
    '// Generated from *.lua by `npm run lua`: edit the scripts, not this file.\n\n' +
    '/** Every script with the number of its KEYS and ARGV. */\n' +
    `export const luaScripts = {\n${entries.join('')}} as const;\n`
  );
}

function main(args) {
  const folder = args.find((arg) => !arg.startsWith('--')) ?? dirname(fileURLToPath(import.meta.url));
  const index = join(folder, 'index.ts');
  const text = generate(folder);
  if (!args.includes('--check')) writeFileSync(index, text);
  else if (!existsSync(index) || readFileSync(index, 'utf8') !== text) {
    throw new Error(`${index} is out of date: npm run lua`);
  }
}

try {
  main(process.argv.slice(2));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
