// npm run mutation: changes the library in small ways, one at a time, and runs the tests of `npm test` that reach each
// change. See README.md.
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { runInNewContext } from 'node:vm';
import ts from 'typescript';
import { markdownTable } from '../../test/support/markdown-table.js';

const { values: options } = parseArgs({
  options: {
    paths: { type: 'string', default: 'lib/engine,lib/keys,lib/contract,lib/stores/token,lib/nest' },
    seed: { type: 'string', default: '1' },
    most: { type: 'string', default: '60' },
    minutes: { type: 'string', default: '15' },
    workers: { type: 'string', default: '2' },
  },
});

/** A change of one piece of a source. */
interface Change {
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
}
interface Mutant extends Change {
  readonly file: string;
  readonly line: number;
  readonly original: string;
  /** The place in the order of the seed. */
  readonly id: number;
}
/** What a spec file does without a mutant: the mutants that its tests reach, and those that loading it reaches. */
interface FileNotes {
  readonly ms: number;
  readonly reached: readonly number[];
  readonly loaded: readonly number[];
  /** A test that fails in the copy. The file is not used. */
  readonly red?: string;
}

/** The times of the first and of the second tests of a mutant. The others run if these notice nothing. */
const FIRST_MS = 4_000;
const SECOND_MS = 60_000;
/** A mutant whose tests take longer counts as killed. */
const LIMIT_MS = 240_000;
const SCRIPTS = 'lib/stores/token/scripts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const tree = join(root, '.cache/mutation');
const say = (line: string): void => void process.stderr.write(`${line}\n`);
const read = (file: string): string => readFileSync(join(tree, file), 'utf8');
function write(file: string, text: string): void {
  mkdirSync(dirname(join(tree, file)), { recursive: true });
  writeFileSync(join(tree, file), text);
}

// Mutants of TypeScript. Types, texts of errors, and what only logs or throws have none.

const BINARY: Readonly<Record<string, readonly string[]>> = {
  '<': ['<=', '>='],
  '<=': ['<', '>'],
  '>': ['>=', '<='],
  '>=': ['>', '<'],
  '===': ['!=='],
  '!==': ['==='],
  '+': ['-'],
  '-': ['+'],
  '*': ['/'],
  '/': ['*'],
};
const TELLS = /(?:^new \w*Error|\b(?:log|warn|error|debug|verbose))$/;

function changesInCode(text: string): readonly Change[] {
  const source = ts.createSourceFile('file.ts', text, ts.ScriptTarget.ES2022, true);
  const changes: Change[] = [];
  const replace = (node: ts.Node, ...replacements: readonly string[]): void => {
    const [start, end] = [node.getStart(), node.getEnd()];
    changes.push(...replacements.map((replacement) => ({ start, end, replacement })));
  };
  const change = (node: ts.Node): void => {
    if (ts.isExpressionStatement(node) && !/^(?:super\(|['"])/.test(node.getText())) replace(node, '');
    else if (ts.isNumericLiteral(node) && !('name' in node.parent && node.parent.name === node))
      replace(node, `(${node.text} + 1)`, `(${node.text} - 1)`);
    else if (node.kind === ts.SyntaxKind.TrueKeyword) replace(node, 'false');
    else if (node.kind === ts.SyntaxKind.FalseKeyword) replace(node, 'true');
    else if (ts.isBinaryExpression(node)) {
      const [operator, left, right] = [node.operatorToken, node.left, node.right].map((part) => part.getText());
      if (['&&', '||', '??'].includes(operator)) replace(node, left, right);
      else if (!(operator.startsWith('+') && /['"`]/.test(node.getText())))
        replace(node, ...(BINARY[operator] ?? []).map((other) => `${left} ${other} ${right}`));
    } else if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.ExclamationToken)
      replace(node, node.operand.getText());
    else if (ts.isCallExpression(node) && /^Math\.(?:max|min)$/.test(node.expression.getText()))
      replace(node, ...node.arguments.map((argument) => argument.getText()));
    else if (ts.isIfStatement(node)) replace(node.expression, 'true', 'false');
    else if (ts.isConditionalExpression(node)) replace(node.condition, 'true', 'false');
  };
  const visit = (node: ts.Node): void => {
    if (ts.isTypeNode(node) || ts.isThrowStatement(node) || ts.isImportDeclaration(node)) return;
    if (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return;
    const called = ts.isExpressionStatement(node) ? node.expression : node;
    if (ts.isCallExpression(called) && TELLS.test(called.expression.getText())) return;
    if (ts.isNewExpression(node) && TELLS.test(`new ${node.expression.getText()}`)) return;
    change(node);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return changes;
}

const LUA = /--[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\b(?:and|or|not|\d+)\b|[=~<>]=|[<>]/g;
const IN_LUA: Readonly<Record<string, readonly string[]>> = {
  ...BINARY,
  '==': ['~='],
  '~=': ['=='],
  and: ['or'],
  or: ['and'],
  not: [''],
};

function changesInLua(text: string): readonly Change[] {
  // The header is a comment of many lines.
  const from = text.startsWith('--[[') ? text.indexOf(']]') + 2 : 0;
  const tokens = [...text.matchAll(LUA)].flatMap(({ 0: token, index }) => {
    const others = /^\d+$/.test(token) ? [`(${token} + 1)`, `(${token} - 1)`] : (IN_LUA[token] ?? []);
    return others.map((replacement) => ({ start: index, end: index + token.length, replacement }));
  });
  const conditions = [...text.matchAll(/\b(?:if|elseif) (.*) then$/gm)].flatMap(({ 0: line, 1: condition, index }) => {
    const start = index + line.indexOf(condition);
    return ['true', 'false'].map((replacement) => ({ start, end: start + condition.length, replacement }));
  });
  return [...tokens, ...conditions].filter(({ start }) => start >= from);
}

// The copy of the repository.

function copyTree(): void {
  rmSync(tree, { recursive: true, force: true });
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' });
  for (const file of listed.trim().split('\n')) {
    if (file === 'node_modules' || !existsSync(join(root, file))) continue;
    mkdirSync(dirname(join(tree, file)), { recursive: true });
    cpSync(join(root, file), join(tree, file));
  }
  symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'));
}

/** Returns all mutants, in the order of the seed. */
function allMutants(): readonly Mutant[] {
  const paths = options.paths.split(',').filter((path) => existsSync(join(tree, path)));
  const files = paths.flatMap((path) => {
    const names = readdirSync(join(tree, path), { recursive: true, encoding: 'utf8' }).toSorted();
    return names.map((name) => `${path}/${name}`).filter((name) => /(?<!\/scripts)\.ts$|\.lua$/.test(name));
  });
  const all = files.flatMap((file) => {
    const text = read(file);
    const changes = file.endsWith('.lua') ? changesInLua(text) : changesInCode(text);
    return changes.map((change, i) => {
      const original = text.slice(change.start, change.end);
      const name = `${options.seed} ${file} ${original} ${change.replacement} ${i}`;
      const rank = createHash('sha256').update(name).digest('hex');
      return { ...change, file, original, rank, line: text.slice(0, change.start).split('\n').length };
    });
  });
  return all.toSorted((a, b) => (a.rank < b.rank ? -1 : 1)).map((mutant, id) => ({ ...mutant, id: id + 1 }));
}

/** Returns the text of each Lua script, by its name. Throws if the embedder refuses a script. */
function embed(): Readonly<Record<string, string>> {
  execFileSync(process.execPath, ['tools/embed-lua.mjs', SCRIPTS], { cwd: tree, stdio: 'pipe' });
  const compilerOptions = { module: ts.ModuleKind.CommonJS };
  const module = { exports: {} as { scripts: Record<string, { lua: string }> } };
  runInNewContext(ts.transpileModule(read(`${SCRIPTS}.ts`), { compilerOptions }).outputText, module);
  return Object.fromEntries(Object.entries(module.exports.scripts).map(([name, { lua }]) => [name, lua]));
}

/** Draws the sample and writes the library with a switch at each mutant, so that Jest compiles it once. */
function instrument(): readonly Mutant[] {
  const all = allMutants();
  say(`${all.length} mutants. At most ${options.most} run`);
  const sources = new Map(all.map(({ file }) => [file, read(file)]));
  const scripts = existsSync(join(tree, SCRIPTS)) ? embed() : {};
  const variants: Record<string, Record<string, string>> = {};
  const sample: Mutant[] = [];
  for (const mutant of all) {
    if (sample.length >= Number(options.most)) break;
    const { id } = mutant;
    if (mutant.file.endsWith('.lua')) {
      const source = sources.get(mutant.file) as string;
      write(mutant.file, source.slice(0, mutant.start) + mutant.replacement + source.slice(mutant.end));
      try {
        variants[id] = Object.fromEntries(Object.entries(embed()).filter(([name, lua]) => scripts[name] !== lua));
      } catch {
        // The embedder refuses it, so it could not be committed.
      }
      write(mutant.file, source);
      if (Object.keys(variants[id] ?? {}).length === 0) continue;
    }
    sample.push(mutant);
  }
  for (const [file, source] of sources) {
    const own = sample.filter((mutant) => mutant.file === file);
    if (file.endsWith('.ts') && own.length > 0) write(file, withSwitches(source, own));
  }
  if (Object.keys(scripts).length > 0) {
    embed();
    const text = SWITCH.replace('VARIANTS', () => JSON.stringify(variants));
    write(`${SCRIPTS}.ts`, `${read(`${SCRIPTS}.ts`)}\n${text}`);
  }
  return sample;
}

/** Returns a source in which the mutant whose number is active replaces the original. */
function withSwitches(text: string, own: readonly Mutant[]): string {
  const render = (start: number, end: number, inside: readonly Mutant[]): string => {
    const [first, ...others] = inside.toSorted((a, b) => a.start - b.start || b.end - a.end);
    if (first === undefined) return text.slice(start, end);
    const within = others.filter((other) => other.end <= first.end);
    const after = others.filter((other) => other.start >= first.end);
    const original = render(first.start, first.end, within);
    const isActive = `globalThis.isMutant(${first.id})`;
    const replaced =
      first.replacement === ''
        ? `{ if (!${isActive}) { ${original} } }`
        : `(${isActive} ? (${first.replacement}) : (${original}))`;
    return text.slice(start, first.start) + replaced + render(first.end, end, after);
  };
  return render(0, text.length, own);
}

const SWITCH = `const variants: Record<string, Record<string, string>> = VARIANTS;
for (const [name, script] of Object.entries(scripts)) {
  const { lua } = script;
  const own = Object.keys(variants).filter((id) => name in variants[id]);
  const get = () => own.reduce((text, id) => (globalThis.isMutant(Number(id)) ? variants[id][name] : text), lua);
  Object.defineProperty(script, 'lua', { get });
}
`;

interface Line {
  readonly notes?: Readonly<Record<string, FileNotes>>;
  readonly by?: string;
  readonly test?: string;
}

/** Runs spec files in one process of Jest, with a mutant or without one (0). Returns what it said, or `timeout`. */
async function runFiles(files: readonly string[], mutant: number, worker: number, limitMs: number): Promise<Line> {
  const out = join(tree, `mutation/${worker}.jsonl`);
  rmSync(out, { force: true });
  write(`mutation/${worker}.run.ts`, `require('../test/suites/run-suite.ts').runFiles(globalThis.mutantFiles);\n`);
  const args = ['--runInBand', '--forceExit', '--env=./labs/mutation/environment.cjs', '--roots=mutation'];
  const env = { ...process.env, MUTANT: String(mutant), MUTATION_OUT: out, MUTATION_FILES: JSON.stringify(files) };
  const child = spawn(process.execPath, ['node_modules/jest/bin/jest.js', ...args, `--testMatch=**/${worker}.run.ts`], {
    cwd: tree,
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: limitMs,
    killSignal: 'SIGKILL',
  });
  let errors = '';
  child.stderr.on('data', (data: Buffer) => (errors = (errors + data.toString()).slice(-2_000)));
  const signal = await new Promise<string | null>((resolve) => child.on('close', (_, by) => resolve(by)));
  if (signal === 'SIGKILL') return { by: 'no test', test: 'a test does not end' };
  const [line = ''] = existsSync(out) ? readFileSync(out, 'utf8').split('\n') : [];
  if (line === '') throw new Error(`jest reported nothing:\n${errors}`);
  return JSON.parse(line) as Line;
}

/** Runs a task for each item, as many at a time as there are workers. */
async function eachOf<T>(items: readonly T[], task: (item: T, worker: number) => Promise<void>): Promise<void> {
  const left = [...items];
  const work = async (worker: number): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await task(item, worker);
  };
  await Promise.all(Array.from({ length: Number(options.workers) }, (_, worker) => work(worker)));
}

copyTree();
const sample = instrument();
const { suitesOf } = createRequire(import.meta.url)(join(tree, 'test/suites/plan.cjs')) as {
  suitesOf: { quick: { groups: Record<string, readonly string[]> } };
};
const notes: Record<string, FileNotes> = {};
await eachOf(Object.values(suitesOf.quick.groups), async (files, worker) => {
  Object.assign(notes, (await runFiles(files, 0, worker, 3_600_000)).notes);
});
for (const [file, { red }] of Object.entries(notes)) if (red !== undefined) say(`not used: ${file}: ${red}`);
const usable = Object.entries(notes).filter(([, { red }]) => red === undefined);

const verdicts = new Map<Mutant, Line>();
const begin = performance.now();
await eachOf(sample, async (mutant, worker) => {
  if (performance.now() - begin > Number(options.minutes) * 60_000) return;
  const isLoaded = usable.some(([, { loaded }]) => loaded.includes(mutant.id));
  // What is evaluated when modules load may matter to all tests.
  const chosen = usable.filter(([name, { reached }]) => {
    // It compares the text of each script with that of the last release.
    if (mutant.file.endsWith('.lua') && name === 'test/unit/wire-format.spec.ts') return false;
    return isLoaded || reached.includes(mutant.id);
  });
  const parts: [string[], string[], string[]] = [[], [], []];
  let ms = 0;
  for (const [file, note] of chosen.toSorted(([, one], [, other]) => one.ms - other.ms)) {
    ms += note.ms;
    parts[ms <= FIRST_MS ? 0 : ms <= SECOND_MS ? 1 : 2].push(file);
  }
  let verdict: Line = {};
  for (const part of parts) {
    if (verdict.by === undefined && part.length > 0) verdict = await runFiles(part, mutant.id, worker, LIMIT_MS);
  }
  verdicts.set(mutant, verdict);
  say(
    `${verdicts.size}: ${describe(mutant)}: ${verdict.by === undefined ? 'SURVIVED' : `${verdict.by}: ${verdict.test}`}`,
  );
});
rmSync(tree, { recursive: true, force: true });

function describe({ file, line, original, replacement }: Mutant): string {
  const code = (text: string): string => `\`\` ${text.replaceAll(/\s+/g, ' ').slice(0, 80)} \`\``;
  return `${file}:${line}: ${code(original)} ${replacement === '' ? 'removed' : `becomes ${code(replacement)}`}`;
}

const isKilled = (mutant: Mutant): boolean => verdicts.get(mutant)?.by !== undefined;
const ran = [...verdicts.keys()];
const folders = [...new Set(ran.map(({ file }) => dirname(file)))].toSorted();
const rowOf = (name: string, of: readonly Mutant[]): readonly string[] => {
  const killed = of.filter(isKilled).length;
  return [name, String(of.length), String(killed), `${((100 * killed) / of.length).toFixed(1)} %`];
};
const rows = folders.map((folder) =>
  rowOf(
    folder,
    ran.filter(({ file }) => dirname(file) === folder),
  ),
);
const survivors = ran.filter((mutant) => !isKilled(mutant)).map((mutant) => `- ${describe(mutant)}`);
process.stdout.write(`# Which changes of the library the tests notice

Seed ${options.seed}, Node ${process.version}, ${new Date().toISOString().slice(0, 10)}.

${markdownTable(['folder', 'ran', 'killed', 'score'], [...rows, rowOf('all', ran)])}

## Survivors

${survivors.toSorted().join('\n')}
`);
