import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

const EMBED = resolve(__dirname, '../../../tools/embed-lua.mjs');
const HEADER = '--[[ Deletes the lock if it is still ours.\n  keys.lock\n  args.owner\n  returns 1 | 0 ]]\n';
const BODY = "if redis.call('GET', keys.lock) == args.owner then return redis.call('DEL', keys.lock) end\nreturn 0\n";

let root: string;
beforeAll(() => void (root = mkdtempSync(join(tmpdir(), 'embed-lua-'))));
afterAll(() => rmSync(root, { recursive: true }));

function embed(...args: string[]): Promise<{ code: number; stderr: string }> {
  return new Promise((done) =>
    execFile(process.execPath, [EMBED, ...args], (error, _stdout, stderr) => done({ code: error ? 1 : 0, stderr })),
  );
}

/** Creates a `scripts` folder with these files. */
function folder(files: Record<string, string>): string {
  const path = join(mkdtempSync(join(root, 'store-')), 'scripts');
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true });
    writeFileSync(join(path, name), text);
  }
  return path;
}

const headed = (found: string, other: string): string => HEADER.replace(found, other) + BODY;

/** What is wrong, the script, and what the tool says of it. */
const BAD_SCRIPTS: readonly (readonly [what: string, script: string, message: string])[] = [
  ['no header', BODY, 'must begin with a --[[ header ]]'],
  [
    'a header without a guarantee',
    headed('Deletes the lock if it is still ours.', ''),
    'must first say what the script does',
  ],
  ['no returns line', headed('returns', 'gives'), 'a line "returns …"'],
  ['a key without a name', headed('keys.lock', 'keys.'), 'the header must name keys.'],
  ['a key by its number', headed('keys.lock', 'KEYS[1]'), 'the header must name KEYS[1]'],
  ['a key declared twice', headed('keys.lock', 'keys.lock\n keys.lock'), 'keys.lock is declared twice'],
  [
    'an optional argument before another',
    headed('args.owner', 'args.ms?\n  args.owner'),
    'args.owner stands behind an optional one',
  ],
  ['an undocumented key', `${HEADER}${BODY}redis.call('DEL', keys.queue)`, 'keys.queue is used but not in the header'],
  ['an undocumented key, spaced', `${HEADER}${BODY}redis.call('DEL', keys . queue)`, 'keys.queue is used but not'],
  ['an undocumented argument', `${HEADER}${BODY}return args.leaseMs`, 'args.leaseMs is used but not in the header'],
  ['an unused key', headed('keys.lock', 'keys.lock\n  keys.queue'), 'keys.queue is in the header but not used'],
  [
    'an unused argument',
    headed('args.owner', 'args.owner\n  args.leaseMs'),
    'args.leaseMs is in the header but not used',
  ],
  ['a numbered key', `${HEADER}${BODY}redis.call('DEL', KEYS[1])`, 'a key must be keys.name, found KEYS[1]'],
  ['a numbered argument', `${HEADER}${BODY}return ARGV[1]`, 'ARGV is written args.name'],
  ['a copied key', `${HEADER}local key = keys.lock\n${BODY}`, 'never in a copy'],
  ['a key passed to a function', `${HEADER}${BODY}grant(keys.lock)`, 'never in a copy'],
  ['all keys at once', `${HEADER}${BODY}return #keys`, 'keys may only be used as keys.name'],
  ['a built key', `${HEADER}${BODY}redis.call('GET', keys.lock .. ':x')`, 'a key must be keys.name'],
  ['a key from a variable', `${HEADER}${BODY}redis.call('GET', key)`, 'a key must be keys.name, found key'],
  ['a second key from a variable', `${HEADER}${BODY}redis.call('DEL', keys.lock, other)`, 'found other'],
  ['a computed index', `${HEADER}${BODY}redis.call('GET', keys[i])`, 'a key must be keys.name'],
  ['a computed argument', `${HEADER}${BODY}return args[i]`, 'args may only be used as args.name'],
  ['a command from a variable', `${HEADER}${BODY}redis.call(verb, keys.lock)`, 'needs a literal command'],
  ['SELECT', `${HEADER}${BODY}redis.call('select', 1)`, 'SELECT is not portable'],
  ['redis.log', `${HEADER}${BODY}redis.log(redis.LOG_NOTICE, 'x')`, 'redis.log is not portable'],
  ['an alias of redis.call', `${HEADER}local call = redis.call\n${BODY}`, 'must be called where it is named'],
  ['an alias of redis', `${HEADER}local r = redis\n${BODY}`, 'only be used as redis.name'],
  ['another clock', `${HEADER}${BODY}return os.clock()`, "no clock but redis.call('TIME')"],
  ['an unused include', `${HEADER}--- @include ./includes/a.lua\n${BODY}`, 'a.lua is included but not used'],
  ['an include below code', `${HEADER}${BODY}--- @include ./includes/a.lua\n`, 'a.lua must stand at the top'],
];

describe('tools/embed-lua.mjs', () => {
  it('finds the committed files up to date', async () => {
    expect(await embed('--check')).toEqual({ code: 0, stderr: '' });
  });

  it('refuses a file that is out of date', async () => {
    const path = folder({ 'a.lua': HEADER + BODY });
    expect((await embed('--check', path)).stderr).toContain('out of date');
    await embed(path);
    expect((await embed('--check', path)).code).toBe(0);
    writeFileSync(join(path, 'a.lua'), `${HEADER}${BODY}-- a comment changes nothing\n`);
    expect((await embed('--check', path)).code).toBe(0);
    writeFileSync(join(path, 'a.lua'), `${HEADER}${BODY.replace('return 0', 'return 2')}`);
    expect((await embed('--check', path)).stderr).toContain('out of date');
  });

  it('gives a command that takes any number of keys all keys from one on', async () => {
    const all = folder({ 'a.lua': `${HEADER}${BODY}redis.call('DEL', unpack(keys, 2))\n` });
    expect((await embed(all)).code).toBe(0);
    expect(readFileSync(join(all, '../scripts.ts'), 'utf8')).toContain("redis.call('DEL', unpack(KEYS, 2))");
    for (const call of ["redis.call('GET', unpack(keys, 2))", 'local copy = { unpack(keys, 2) }']) {
      const { stderr } = await embed(folder({ 'a.lua': `${HEADER}${BODY}${call}\n` }));
      expect(stderr).toContain('keys');
    }
  });

  it('lets a script declare keys.slot, which is sent and not used', async () => {
    const slot = folder({ 'a.lua': `${HEADER.replace('keys.lock', 'keys.lock\n  keys.slot')}${BODY}` });
    expect(await embed(slot)).toEqual({ code: 0, stderr: '' });
    expect(readFileSync(join(slot, '../scripts.ts'), 'utf8')).toContain('{ keys: 2,');
  });

  it('makes a script for one lock and one for several of a file with both', async () => {
    const body =
      "--- @one\nlocal a = 1\n--- @many\nlocal b = redis.call('DEL', unpack(keys, 2, count + 1))\n--- @end\n";
    const scripts = folder({ 'release-it.lua': `${HEADER}${body}${BODY}` });
    expect((await embed(scripts)).code).toBe(0);
    const text = readFileSync(join(scripts, '../scripts.ts'), 'utf8');
    const linesOf = (name: string): string => text.split('\n').find((line) => line.includes(` ${name}: {`)) ?? '';
    expect(linesOf('releaseIt')).toContain('local a = 1');
    expect(linesOf('releaseIt')).not.toContain('local b');
    expect(linesOf('releaseItMany')).toContain('unpack(KEYS, 2, count + 1)');
    expect(linesOf('releaseItMany')).not.toContain('local a');
    expect(text).toContain("'releaseIt' | 'releaseItMany'");
  });

  it('refuses computed keys except in an include that is marked and runs no command', async () => {
    const script = `${HEADER}--- @include ./includes/next-key.lua\nnextKey()\n${BODY}`;
    const include = 'local function nextKey() KEYS[1] = KEYS[2] end\n';
    const unmarked = folder({ 'a.lua': script, 'includes/next-key.lua': include });
    expect((await embed(unmarked)).stderr).toContain('a.lua: KEYS is written keys.name');
    const bold = `--- @computed-keys\nlocal function nextKey() redis.call('DEL', KEYS[2]) end\n`;
    const calling = folder({ 'a.lua': script, 'includes/next-key.lua': bold });
    expect((await embed(calling)).stderr).toContain('next-key.lua: @computed-keys may run no command');
  });

  it('refuses includes that form a cycle or do not exist', async () => {
    const cycle = folder({
      'x.lua': `${HEADER}--- @include ./includes/a.lua\na()\n${BODY}`,
      'includes/a.lua': '--- @include ./b.lua\nlocal function a() b() end\n',
      'includes/b.lua': '--- @include ./a.lua\nlocal function b() a() end\n',
    });
    expect((await embed(cycle)).stderr).toContain('x.lua: include cycle: x.lua > a.lua > b.lua > a.lua');
    const missing = folder({ 'x.lua': `${HEADER}--- @include ./includes/none.lua\n${BODY}` });
    expect((await embed(missing)).stderr).toContain('x.lua: no such include: includes/none.lua');
  });

  it.each([
    ['defines another name', 'local function b() end\n', 'a.lua must define one local, named a'],
    ['defines two', 'local a = 1\nlocal b = 2\n', 'a.lua must define one local, named a'],
  ])('refuses an include that %s', async (_what, include, message) => {
    const script = `${HEADER}--- @include ./includes/a.lua\na()\n${BODY}`;
    const { stderr } = await embed(folder({ 'x.lua': script, 'includes/a.lua': include }));
    expect(stderr).toContain(`x.lua: ${message}`);
  });

  // One process checks them all.
  describe('refuses', () => {
    let lines: readonly string[];
    let exitCode: number;

    beforeAll(async () => {
      const folders = BAD_SCRIPTS.map(([, script], i) =>
        folder({ [`bad-${i}.lua`]: script, 'includes/a.lua': 'local a = 1\n' }),
      );
      const { code, stderr } = await embed(...folders);
      exitCode = code;
      lines = stderr.trim().split('\n');
    });

    it.each(BAD_SCRIPTS.map(([what, , message], i) => [what, message, i] as const))('%s', (_what, message, i) => {
      expect(lines[i]).toContain(`bad-${i}.lua: `);
      expect(lines[i]).toContain(message);
      expect(exitCode).toBe(1);
    });
  });
});
