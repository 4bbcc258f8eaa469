// npm run lint:prose: checks the length of lines, conflict markers, tags of docstrings, and the words of comments, test
// names and Markdown. Strings are searched for translated English. The words and phrases are in tools/prose-words.mjs.
//   node tools/lint-prose.mjs [--count] [files or folders]
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, extname, join, relative } from 'node:path';
import ts from 'typescript';
import { PHRASES, SEMICOLON, WORDS } from './prose-words.mjs';

const root = join(import.meta.dirname, '..');
const PAGES = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md', 'CODE_OF_CONDUCT.md'];
const ROOTS = ['lib', 'test', 'labs', 'sample', 'docs', 'tools', '.github', ...PAGES];
const MOST_COLUMNS = 120;
const SKIPPED_FOLDERS = new Set(['node_modules', 'dist', '.cache', 'target', 'projects', 'generated']);
/** Written by programs whose own texts are checked. */
const GENERATED = [
  /^docs\/api\//,
  /^labs\/bench\/results\//,
  /^labs\/chaos\/RESULTS\.md$/,
  /^labs\/chaos\/judge\/RESULTS\.md$/,
  /^labs\/model\/RESULTS\.md$/,
  /^labs\/mutation\/RESULTS\.md$/,
  /^labs\/spec\/RESULTS\.md$/,
];
const GENERATED_HEADER = /^\/\/ Generated /;

/** Stands for code between two pieces of prose, so that no pattern reaches over it. */
const CODE = '\uE000';
/** Of as many columns, so that offsets stay what they are. */
const hide = (text, by = CODE) => text.replaceAll(/[^\n]/g, by);
/** Code and addresses are not prose. */
const withoutCode = (text) =>
  text
    .replaceAll(/```[\s\S]*?(?:```|$)/g, (code) => hide(code))
    .replaceAll(/(`+)[^`\n]+?\1/g, (code) => hide(code, '_'))
    .replaceAll(/\bhttps?:\/\/[^\s)}|>]+/g, (address) => hide(address, '_'))
    .replaceAll(/\{@link(?:plain|code)? +[^}|\s]+ *\|?/g, (link) => hide(link, ' '))
    .replaceAll(/@(?:param|template|include) +\S+/g, (tag) => hide(tag));

/** Returns the text with everything hidden but these ranges, and their comment marks. */
function only(text, ranges) {
  let prose = '';
  let end = 0;
  for (const [from, to] of ranges.toSorted(([a], [b]) => a - b)) {
    const between = text.slice(end, from);
    prose += between.trim() === '' ? between : hide(between);
    prose += text
      .slice(from, to)
      .replace(/^\/\*\*?|^--\[=*\[/, (mark) => hide(mark))
      .replaceAll(/^[ \t]*(?:\/\/|\*(?!\/)|--)/gm, (mark) => hide(mark, ' '));
    end = to;
  }
  return withoutCode(prose + hide(text.slice(end)));
}

const TEST = /^(?:it|test|describe)\b/;

/** Returns the comments and test titles as `prose`, and the other strings (errors, log lines, tables) as `texts`. */
function readCode(path, text) {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.ES2022, true);
  const [prose, texts] = [new Map(), new Map()];
  const add = (found) => found?.forEach(({ pos, end }) => prose.set(pos, [pos, end]));
  const visit = (node) => {
    if (ts.isCallExpression(node) && TEST.test(node.expression.getText(source))) {
      const [name] = node.arguments;
      if (name && (ts.isStringLiteralLike(name) || ts.isTemplateExpression(name))) {
        prose.set(name.getStart(source), [name.getStart(source) + 1, name.end - 1]);
      }
    }
    const start = node.getStart(source);
    if ((ts.isStringLiteralLike(node) || ts.isTemplateLiteralToken(node)) && !prose.has(start)) {
      texts.set(start, [start + 1, node.end - 1]);
    }
    const children = node.getChildren(source).filter((child) => !ts.isJSDoc(child));
    if (children.length === 0) {
      add(ts.getLeadingCommentRanges(text, node.pos));
      add(ts.getTrailingCommentRanges(text, node.end));
    }
    children.forEach(visit);
  };
  visit(source);
  return { prose: only(text, [...prose.values()]), texts: only(text, [...texts.values()]) };
}

function readLua(path, text) {
  const [prose, texts] = [[], []];
  for (const { 0: token, index } of text.matchAll(
    /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|--\[(=*)\[[\s\S]*?\]\1\]|--.*/g,
  )) {
    (token.startsWith('--') ? prose : texts).push([index, index + token.length]);
  }
  return { prose: only(text, prose), texts: only(text, texts) };
}

const readMarkdown = (path, text) => ({ prose: withoutCode(text), texts: '' });

const READ = {
  '.ts': readCode,
  '.mjs': readCode,
  '.cjs': readCode,
  '.js': readCode,
  '.lua': readLua,
  '.md': readMarkdown,
};

/** A pattern of tools/prose-words.mjs, whose words may stand on two lines. */
const acrossLines = (pattern) => new RegExp(pattern.source.replaceAll(' ', '\\s+'), `g${pattern.flags}`);
const compiled = (words) => words.map(([pattern, instead]) => ({ pattern: acrossLines(pattern), instead }));
const PATTERNS = compiled([...WORDS, ...PHRASES, SEMICOLON]);
/** Strings of code may be names of commands or fixtures, so they are searched for phrases only. */
const TEXT_PATTERNS = compiled(PHRASES);

function wordsIn(prose, patterns) {
  const found = patterns.flatMap(({ pattern, instead }) =>
    [...prose.matchAll(pattern)].map(({ 0: word, index }) => ({ word, index, instead })),
  );
  return found
    .toSorted((a, b) => a.index - b.index)
    .map(({ word, index, instead }) => ({
      line: prose.slice(0, index).split('\n').length,
      message: `"${word.replaceAll(/\s+/g, ' ').trim()}": ${instead}`,
    }));
}

const LITERAL = /'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`?|\/(?:\\.|[^/\\])+\//g;
const COMMENT = /^\s*(?:\*|\/\/|\/\*|--)/;

/** Tables, code fences and addresses cannot be wrapped. Formatters keep literals, which count in lib/ only. */
function longLines(path, text) {
  const isMarkdown = path.endsWith('.md');
  const shown = isMarkdown ? text.replaceAll(/^```[\s\S]*?^```/gm, (code) => code.replaceAll(/[^\n]/g, '')) : text;
  return shown.split('\n').flatMap((line, i) => {
    if (isMarkdown && line.trimStart().startsWith('|')) return [];
    const keepsLiterals = isMarkdown || path.startsWith('lib/') || COMMENT.test(line);
    const wrappable = keepsLiterals ? line : line.replaceAll(LITERAL, '');
    const columns = wrappable.replaceAll(/\]\([^)]*\)|https?:\/\/\S+/g, '').length;
    if (columns <= MOST_COLUMNS) return [];
    return [{ line: i + 1, message: `${columns} columns: wrap at ${MOST_COLUMNS}` }];
  });
}

/** A merge that was left unfinished in a comment breaks no other check. */
function conflictMarkers(text) {
  const isMarker = (line) => /^[<>]{7} /.test(line);
  return text.split('\n').flatMap((line, i) => (isMarker(line) ? [{ line: i + 1, message: 'finish the merge' }] : []));
}

/** TypeScript parses such a line as a tag, so an editor shows it and all lines below it as the text of that tag. */
function decoratorsAsTags(text) {
  const isTag = (line) => /^\s*(?:\/\*)?\*+ @[A-Z]/.test(line);
  return text.split('\n').flatMap((line, i) => {
    return isTag(line) ? [{ line: i + 1, message: 'begin no line of a docstring with a decorator' }] : [];
  });
}

function lint(path, text) {
  if (GENERATED_HEADER.test(text)) return [];
  const { prose, texts } = READ[extname(path)](path, text);
  const words = [...wordsIn(prose, PATTERNS), ...wordsIn(texts, TEXT_PATTERNS)];
  const found = [...longLines(path, text), ...conflictMarkers(text), ...decoratorsAsTags(text), ...words];
  return found.toSorted((a, b) => a.line - b.line).map(({ line, message }) => `${path}:${line}: ${message}`);
}

function filesIn(path) {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path).flatMap((name) => (SKIPPED_FOLDERS.has(name) ? [] : filesIn(join(path, name))));
}

/** Of the folders of the first two levels. */
function countsOf(problems) {
  const counts = new Map();
  for (const problem of problems) {
    const parts = problem.slice(0, problem.indexOf(':')).split('/');
    const folder = parts.slice(0, Math.min(2, Math.max(1, parts.length - 1))).join('/');
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  return [...counts].map(([folder, count]) => `${String(count).padStart(6)} ${folder}`);
}

const args = process.argv.slice(2);
const paths = args.filter((arg) => !arg.startsWith('--'));
const files = (paths.length > 0 ? paths : ROOTS.map((path) => join(root, path)))
  .flatMap(filesIn)
  .map((file) => ({ file, path: relative(root, file) || basename(file) }))
  .filter(({ path }) => extname(path) in READ && !GENERATED.some((pattern) => pattern.test(path)));
const problems = files.flatMap(({ file, path }) => lint(path, readFileSync(file, 'utf8')));
if (files.length === 0) problems.push(`${paths.join(' ')}: there is nothing to check`);
console.log(
  [
    ...(args.includes('--count') ? countsOf(problems) : problems),
    `${problems.length} found in ${files.length} files`,
  ].join('\n'),
);
process.exitCode = problems.length === 0 ? 0 : 1;
