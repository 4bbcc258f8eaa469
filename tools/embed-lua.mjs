// Checks the Lua of each `scripts` folder and writes it to a scripts.ts beside the folder, so that nothing reads files
// at run time.
//   node tools/embed-lua.mjs [--check] [scripts folder…]    all folders below lib/ by default
//
// - A script begins with its contract, a --[[ header ]]. The header first says what the script does. Then it declares
//   `keys.name` and `args.name`, one a line, in the order in which they are sent. A line "returns …" ends it.
//   `keys.a or keys.b` gives one key two names. `keys.a?` may be omitted by the caller. All are used, but `keys.slot`:
//   by it, a server or a proxy only finds where the script runs.
// - A command that takes any number of keys may get `unpack(keys, 2)`: the second key and all after it, or
//   `unpack(keys, 2, last)`.
// - Lines between `--- @one`, `--- @many` and `--- @end` belong to one of two scripts that are made of one file:
//   `release` for one lock and `releaseMany` for several. All other lines are in both.
// - Scripts write `keys.name` and `args.name`. The embedder replaces them by KEYS[n] and ARGV[n], because some vendors
//   refuse a key that is not a literal KEYS[n]. Includes use the names that the including script declares.
// - `--- @include ./includes/name.lua` lines stand at the top. Paths are relative to the file. An include defines one
//   local, named as its file. It is embedded before the first statement that needs it, so that a script which returns
//   earlier does not pay for it.
// - `--- @computed-keys` lets an include assign KEYS[n] by index. That include must not run a command.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '..');
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
const OPENING = new Set(['function', 'if', 'do', 'repeat', '(', '[', '{']);
const CLOSING = new Set(['end', 'until', ')', ']', '}']);
const KEYLESS = new Set(['TIME', 'PUBSUB', 'PUBLISH', 'SPUBLISH']);
const ALL_KEYS = new Set(['DEL', 'UNLINK', 'EXISTS', 'TOUCH', 'MGET', 'RENAME', 'RENAMENX']);
const ARRAYS = { keys: 'KEYS', args: 'ARGV' };
const INCLUDE = /^--- @include (\S+)[ \t]*$/;
const VARIANT = /^--- @(one|many|end)[ \t]*$/;

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

/** Returns the texts of the tokens that are code. */
function codeOf(source) {
  return tokenize(source)
    .filter(({ kind }) => kind !== 'space' && kind !== 'comment')
    .map(({ text }) => text);
}

/** Returns the source without comments, blank lines and indentation. Strings stay as they are. */
function strip(source) {
  const parts = tokenize(source).map(({ kind, text }) => {
    if (kind === 'comment') return ' ';
    if (kind === 'space') return text.includes('\n') ? '\n' : ' ';
    return text;
  });
  const lean = [];
  for (const part of parts) {
    const last = lean.at(-1);
    if ((part === ' ' || part === '\n') && (last === ' ' || last === '\n')) {
      if (part === '\n') lean[lean.length - 1] = part;
    } else lean.push(part);
  }
  return lean.join('').trim();
}

/** Returns whether the code names a local, an include for example: `x.name` is a field. */
function names(code, name) {
  return code.some((text, i) => text === name && code[i - 1] !== '.');
}

/** Splits stripped code into its top-level statements. A line that begins outside of all blocks begins a statement. */
function statementsOf(stripped) {
  const statements = [[]];
  let depth = 0;
  const tokens = tokenize(stripped);
  tokens.forEach(({ kind, text }, i) => {
    const next = tokens[i + 1];
    const isBreak = kind === 'space' && text.includes('\n') && depth === 0;
    if (isBreak && next?.kind === 'name' && !['and', 'or'].includes(next.text)) statements.push([]);
    else statements.at(-1).push(text);
    if (kind === 'name' || kind === 'symbol') depth += Number(OPENING.has(text)) - Number(CLOSING.has(text));
  });
  return statements.map((texts) => texts.join('').trim());
}

/** Returns the text without the lines that only the other variant has. */
function variantOf(text, variant) {
  let current;
  return text
    .split('\n')
    .filter((line) => {
      const mark = VARIANT.exec(line)?.[1];
      if (mark !== undefined) current = mark === 'end' ? undefined : mark;
      return mark === undefined && (current === undefined || current === variant);
    })
    .join('\n');
}

/** Returns the scripts that are made of a file: by their names, the variant of each. */
function variantsOf(file) {
  const name = camelCase(file);
  const hasVariants = readFileSync(file, 'utf8')
    .split('\n')
    .some((line) => VARIANT.test(line));
  if (!hasVariants) return [{ name }];
  return [
    { name, variant: 'one' },
    { name: `${name}Many`, variant: 'many' },
  ];
}

/** Reads a file: its text, its code, and the paths of its includes. */
function readSource(file, variant) {
  const text = variantOf(readFileSync(file, 'utf8'), variant);
  const tokens = tokenize(text);
  const firstCode = tokens.findIndex(({ kind }) => kind !== 'comment' && kind !== 'space');
  const includes = tokens.flatMap(({ kind, text: comment }, i) => {
    const path = kind === 'comment' && INCLUDE.exec(comment)?.[1];
    if (!path) return [];
    if (firstCode !== -1 && i > firstCode) throw new Error(`@include ${path} must stand at the top`);
    return [resolve(dirname(file), path)];
  });
  return { text, includes, code: strip(text) };
}

/** Reads an include. It must define one local, named as its file. */
function readInclude(file) {
  const name = camelCase(file);
  const source = readSource(file);
  const locals = statementsOf(source.code).filter((statement) => statement.startsWith('local '));
  const isNamed = new RegExp(String.raw`^local (?:function )?${name}\b(?!\s*,)`).test(locals[0]);
  if (locals.length !== 1 || !isNamed) throw new Error(`${basename(file)} must define one local, named ${name}`);
  const computesKeys = source.text.includes('--- @computed-keys\n');
  if (computesKeys && names(codeOf(source.code), 'redis')) {
    throw new Error(`${basename(file)}: @computed-keys may run no command`);
  }
  return { ...source, name, computesKeys };
}

/** Adds the includes of a source to the map, each after those that it includes itself. */
function collect(file, source, found = new Map(), trail = [file]) {
  const code = codeOf(source.code);
  for (const path of source.includes) {
    const cycle = trail.indexOf(path);
    if (cycle !== -1) throw new Error(`include cycle: ${[...trail, path].map((one) => basename(one)).join(' > ')}`);
    if (!existsSync(path)) throw new Error(`no such include: ${relative(dirname(file), path)}`);
    if (!names(code, camelCase(path))) throw new Error(`${basename(path)} is included but not used`);
    if (found.has(path)) continue;
    const include = readInclude(path);
    collect(path, include, found, [...trail, path]);
    found.set(path, include);
  }
  return found;
}

/** Leaves out the includes that only the other variant of the script uses. */
function withUsedIncludes(source, variant) {
  if (variant === undefined) return source;
  const code = codeOf(source.code);
  return { ...source, includes: source.includes.filter((path) => names(code, camelCase(path))) };
}

/** Returns the top-level statements of a script, each include before the first statement that needs it. */
function assemble(file, source) {
  const includes = [...collect(file, source)];
  const statements = statementsOf(source.code);
  const codes = statements.map(codeOf);
  const placeOf = new Map();
  // The last ones need those before them.
  for (const [path, { name }] of includes.toReversed()) {
    const places = includes.filter(([, other]) => other.includes.includes(path)).map(([other]) => placeOf.get(other));
    const own = source.includes.includes(path) ? codes.findIndex((code) => names(code, name)) : Infinity;
    placeOf.set(path, Math.min(own, ...places));
  }
  return statements.flatMap((code, i) => [
    ...includes.filter(([path]) => placeOf.get(path) === i).map(([, include]) => include),
    { code, computesKeys: false },
  ]);
}

/**
 * Reads the contract at the top of a script. Returns the names of its keys and args, those of one position together.
 */
function readHeader(source) {
  const text = /^--\[\[([\s\S]*?)\]\]/.exec(source)?.[1];
  if (text === undefined) throw new Error('must begin with a --[[ header ]]');
  const guarantee = text.split(/^\s*(?:(?:keys|args)\.|returns\b)/m)[0].trim();
  if (!/\w+\s+\w+/.test(guarantee)) throw new Error('the header must first say what the script does');
  if (!/^\s*returns[ \t]+\S/m.test(text)) throw new Error('the header needs a line "returns …"');
  const numbered = /\b(?:KEYS|ARGV)\[\d+\]/.exec(text);
  if (numbered) throw new Error(`the header must name ${numbered[0]}: keys.name or args.name`);
  const declared = { keys: [], args: [] };
  for (const [, array, rest] of text.matchAll(/^\s*(keys|args)\.(.*)$/gm)) {
    const own = String.raw`[A-Za-z]\w*`;
    const match = new RegExp(String.raw`^(${own}(?: or ${array}\.${own})*)(\?)?(?:\s|$)`).exec(rest);
    if (!match) throw new Error(`the header must name ${array}.${rest}`);
    const slot = { names: match[1].split(` or ${array}.`), optional: match[2] === '?' };
    const last = declared[array].at(-1);
    if (last?.optional && !slot.optional) throw new Error(`${array}.${slot.names[0]} stands behind an optional one`);
    const twice = slot.names.find((name) => declared[array].some((other) => other.names.includes(name)));
    if (twice) throw new Error(`${array}.${twice} is declared twice`);
    declared[array].push(slot);
  }
  return declared;
}

/** Splits the arguments of the call whose "(" stands at `open`. Returns them with the index of its ")". */
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
    if (ALL_KEYS.has(name) && /^unpack\(keys,\d(?:,[\w+]+)?\)$/.test(key)) continue;
    if (!/^keys\.\w+$/.test(key)) throw new Error(`${name}: a key must be keys.name, found ${key}`);
  }
}

/** Checks the calls of `redis`. Returns the indexes of the keys in them. */
function checkCalls(code) {
  const keysOfCalls = new Set();
  code.forEach((text, i) => {
    if (text !== 'redis') return;
    const member = code[i + 2];
    if (code[i + 1] !== '.') throw new Error('redis may only be used as redis.name');
    if (member === 'log') throw new Error('redis.log is not portable');
    if (member !== 'call' && member !== 'pcall' && member !== 'sha1hex') return;
    if (code[i + 3] !== '(') throw new Error(`redis.${member} must be called where it is named`);
    const { args, close } = readArguments(code, i + 3);
    if (member !== 'sha1hex') checkCall(args);
    for (let at = i + 4; at < close; at++) if (code[at] === 'keys') keysOfCalls.add(at);
  });
  return keysOfCalls;
}

/** Checks code against the rules and against the names that the header declares. Returns the names that it uses. */
function checkBody(code, declared) {
  const keysOfCalls = checkCalls(code);
  const used = new Set();
  code.forEach((text, i) => {
    if (code[i - 1] === '.') return;
    if (text === 'os' && code[i + 1] === '.') throw new Error("no clock but redis.call('TIME')");
    const array = Object.keys(ARRAYS).find((name) => ARRAYS[name] === text);
    if (array) throw new Error(`${text} is written ${array}.name`);
    if (!(text in ARRAYS) || (keysOfCalls.has(i) && code[i - 2] === 'unpack')) return;
    if (code[i + 1] !== '.') throw new Error(`${text} may only be used as ${text}.name`);
    const slot = declared[text].find(({ names: own }) => own.includes(code[i + 2]));
    const name = `${text}.${code[i + 2]}`;
    if (!slot) throw new Error(`${name} is used but not in the header`);
    // An optional key is a condition in `keys.name and` and `keys.name then`: it cannot become a copy there.
    const isTested = slot.optional && ['and', 'then'].includes(code[i + 3]);
    if (text === 'keys' && !keysOfCalls.has(i) && !isTested) {
      throw new Error(`${name} may only stand in a redis.call or redis.sha1hex, never in a copy`);
    }
    used.add(name);
  });
  return used;
}

/** Replaces `keys.name` by KEYS[n] and `args.name` by ARGV[n]. */
function bind(code, declared) {
  const tokens = tokenize(code);
  const texts = tokens.map(({ kind, text }, i) => {
    const isName = kind === 'name' && text in ARRAYS && tokens[i - 1]?.text !== '.';
    if (isName && tokens[i + 1].text !== '.') return ARRAYS[text];
    return isName ? `${ARRAYS[text]}[${positionOf(declared[text], tokens[i + 2].text)}]` : text;
  });
  return texts.filter((_, i) => !isBound(tokens, i - 1) && !isBound(tokens, i - 2)).join('');
}

function isBound(tokens, i) {
  return (
    tokens[i]?.kind === 'name' && tokens[i].text in ARRAYS && tokens[i - 1]?.text !== '.' && tokens[i + 1]?.text === '.'
  );
}

function positionOf(slots, name) {
  return slots.findIndex(({ names: own }) => own.includes(name)) + 1;
}

function readScript(file, variant) {
  const source = readSource(file, variant);
  const declared = readHeader(source.text);
  const pieces = assemble(file, withUsedIncludes(source, variant));
  const used = checkBody(
    codeOf(pieces.map(({ code, computesKeys }) => (computesKeys ? '' : code)).join('\n')),
    declared,
  );
  for (const array of Object.keys(ARRAYS)) {
    for (const name of declared[array].flatMap((slot) => slot.names.map((own) => `${array}.${own}`))) {
      if (!used.has(name) && name !== 'keys.slot') throw new Error(`${name} is in the header but not used`);
    }
  }
  const texts = pieces.map(({ name, code, computesKeys }) => ({
    name,
    text: computesKeys ? code : bind(code, declared),
  }));
  return { keys: declared.keys.length, args: declared.args.length, texts };
}

/** Returns the includes that several scripts have with the same text, each with the name of its constant. */
function sharedIncludes(scripts) {
  const shared = new Map();
  const all = scripts.flatMap(({ texts }) => texts.filter(({ name }) => name !== undefined));
  const namesTaken = new Set();
  for (const { name, text } of all) {
    if (shared.has(text) || all.filter((other) => other.text === text).length < 2) continue;
    let constant = name;
    for (let n = 2; namesTaken.has(constant); n++) constant = `${name}${n}`;
    namesTaken.add(constant);
    shared.set(text, constant);
  }
  return shared;
}

/** Returns the expression of a script's text: a string, or several strings and constants. */
function expressionOf(texts, shared) {
  const parts = [];
  for (const { text } of texts) {
    const constant = shared.get(text);
    const last = parts.at(-1);
    if (constant !== undefined) parts.push({ constant });
    else if (last?.text === undefined) parts.push({ text });
    else last.text += `\n${text}`;
  }
  const [first, ...others] = parts.map(({ constant, text }) => constant ?? JSON.stringify(text));
  return others.length === 0 ? first : `lines(${[first, ...others].join(', ')})`;
}

const LINES = "const lines = (...parts: readonly string[]): string => parts.join('\\n');\n";

function camelCase(file) {
  return basename(file, '.lua').replace(/-(\w)/g, (_, letter) => letter.toUpperCase());
}

function generate(folder) {
  const files = readdirSync(folder).filter((file) => file.endsWith('.lua'));
  const scripts = files.toSorted().flatMap((file) => {
    try {
      const path = join(folder, file);
      return variantsOf(path).map(({ name, variant }) => ({ name, ...readScript(path, variant) }));
    } catch (error) {
      throw new Error(`${file}: ${error.message}`, { cause: error });
    }
  });
  const shared = sharedIncludes(scripts);
  const constants = [...shared].map(([text, constant]) => `const ${constant} = ${JSON.stringify(text)};\n`);
  const entries = scripts.map(({ name, keys, args, texts }) => {
    return `  ${name}: { keys: ${keys}, args: ${args}, lua: ${expressionOf(texts, shared)} },\n`;
  });
  const union = scripts.map(({ name }) => `'${name}'`);
  return (
    '// Generated from scripts/*.lua by `npm run lua`. Edit the scripts, not this file.\n\n' +
    'interface Script {\n' +
    '  /** How many KEYS and ARGV it takes. */\n' +
    '  readonly keys: number;\n' +
    '  readonly args: number;\n' +
    '  readonly lua: string;\n' +
    '}\n\n' +
    (constants.length === 0 ? '' : `${LINES}\n${constants.join('')}\n`) +
    `export const scripts: Readonly<Record<${union.join(' | ')}, Script>> = {\n${entries.join('')}};\n`
  );
}

/** Returns the folders below lib/ that are named `scripts`. */
function scriptFolders() {
  return readdirSync(join(ROOT, 'lib'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name === 'scripts')
    .map((entry) => join(entry.parentPath, entry.name));
}

/** Checks and embeds each folder. Prints what is wrong in each of them. */
function main(args) {
  const given = args.filter((arg) => !arg.startsWith('--'));
  for (const folder of given.length > 0 ? given : scriptFolders()) {
    try {
      embed(folder, args.includes('--check'));
    } catch (error) {
      console.error(error.message);
      process.exitCode = 1;
    }
  }
}

function embed(folder, isCheck) {
  const output = join(dirname(folder), 'scripts.ts');
  const text = generate(folder);
  if (!isCheck) writeFileSync(output, text);
  else if (!existsSync(output) || readFileSync(output, 'utf8') !== text) {
    throw new Error(`${relative(ROOT, output)} is out of date: npm run lua`);
  }
}

main(process.argv.slice(2));
