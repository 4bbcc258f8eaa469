import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

const EMBED = resolve(__dirname, '../../../tools/embed-lua.mjs');
const HEADER = '--[[ Deletes the lock if it is still ours.\n  keys.lock\n  args.owner\n  returns 1 | 0 ]]\n';
const BODY = "if redis.call('GET', keys.lock) == args.owner then return redis.call('DEL', keys.lock) end\nreturn 0\n";
const BOUND = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end\nreturn 0";

const run = promisify(execFile);

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

const generated = (path: string): string => readFileSync(join(path, '../scripts.ts'), 'utf8');

/** Returns the generated entries by name. */
function entriesOf(path: string): Record<string, { keys: number; args: number; lua: string }> {
  const entries = generated(path).matchAll(/^ {2}(\w+): \{ keys: (\d+), args: (\d+), lua: (".*") \},$/gm);
  return Object.fromEntries(
    [...entries].map(([, name, keys, args, lua]) => [name, { keys: +keys, args: +args, lua: JSON.parse(lua) }]),
  );
}

/** Embeds one script and its includes, and returns the generated Lua. */
async function luaOf(script: string, includes: Record<string, string> = {}): Promise<string> {
  const files = Object.entries(includes).map(([name, text]) => [`includes/${name}`, text]);
  const path = folder({ 'a.lua': script, ...Object.fromEntries(files) });
  expect(await embed(path)).toEqual({ code: 0, stderr: '' });
  return entriesOf(path).a.lua;
}

describe('tools/embed-lua.mjs', () => {
  it('finds the committed files up to date', async () => {
    expect(await embed('--check')).toEqual({ code: 0, stderr: '' });
  });

  it('writes an include that several scripts have once for each text', async () => {
    const include = "local function held() return redis.call('GET', keys.lock) end\n";
    const using = (header: string) => `${header}--- @include ./includes/held.lua\n${BODY}return held()\n`;
    const other = HEADER.replace('  keys.lock\n', '  keys.queue\n  keys.lock\n').replace('returns', 'returns 2 |');
    const touchingQueue = using(other).replace('return held()', "return held() or redis.call('GET', keys.queue)");
    const files = { 'a.lua': using(HEADER), 'b.lua': using(HEADER), 'c.lua': touchingQueue };
    const path = folder({ ...files, 'includes/held.lua': include });
    expect(await embed(path)).toEqual({ code: 0, stderr: '' });
    const text = generated(path);
    expect(text.match(/^const held = .*KEYS\[1\]/gm)).toHaveLength(1);
    expect(text.match(/lines\([^\n]*held, /g)).toHaveLength(2);
    expect(text).toMatch(/ {2}c: .*local function held\(\) return redis\.call\('GET', KEYS\[2\]\) end/);
    writeFileSync(join(path, '../print.mjs'), `import { scripts } from './scripts.ts'; console.log(scripts.a.lua);`);
    const whole = await luaOf(using(HEADER), { 'held.lua': include });
    const hooks = ['--import', resolve(__dirname, '../../support/typescript-hooks.mjs')];
    const { stdout } = await run(process.execPath, [...hooks, join(path, '../print.mjs')]);
    expect(stdout.trim()).toBe(whole);
  });

  it('embeds code without comments and leaves strings as they are', async () => {
    const tricky =
      "local text = '-- no comment `${x}` keys.lock \\' \\\\' -- a comment\n\n\n  --[==[ long ]] one ]==]\n  local more = [[\n  -- kept\n]]\n";
    const path = folder({ 'inspect-queue.lua': `${HEADER}${tricky}${BODY}` });
    expect(await embed(path)).toEqual({ code: 0, stderr: '' });
    expect(entriesOf(path)).toEqual({
      inspectQueue: {
        keys: 1,
        args: 1,
        lua: `local text = '-- no comment \`\${x}\` keys.lock \\' \\\\'\nlocal more = [[\n  -- kept\n]]\n${BOUND}`,
      },
    });
  });

  it('types scripts so that declarations carry no Lua', async () => {
    const path = folder({ 'a.lua': HEADER + BODY, 'b.lua': HEADER + BODY });
    await embed(path);
    expect(generated(path)).toContain("export const scripts: Readonly<Record<'a' | 'b', Script>> = {");
    expect(generated(path)).toContain('readonly lua: string;');
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

  it('numbers keys and args in the order of the header', async () => {
    const header = '--[[ Sets both keys.\n  keys.b  second\n  keys.a\n  args.z\n  args.y  in ms\n  returns OK ]]\n';
    const lua = await luaOf(`${header}redis.call('SET', keys.a, args.y)\nreturn redis.call('SET', keys.b, args.z)\n`);
    expect(lua).toBe("redis.call('SET', KEYS[2], ARGV[2])\nreturn redis.call('SET', KEYS[1], ARGV[1])");
  });

  it('gives one key two names', async () => {
    const header = HEADER.replace('keys.lock', 'keys.lock or keys.queue  where the entry is');
    expect(await luaOf(`${header}redis.call('ZREM', keys.queue, args.owner)\n${BODY}`)).toBe(
      `redis.call('ZREM', KEYS[1], ARGV[1])\n${BOUND}`,
    );
  });

  it('lets a script test whether an optional key was sent', async () => {
    const header = HEADER.replace('keys.lock', 'keys.lock\n  keys.token?  the last one');
    const path = folder({ 'a.lua': `${header}local t = keys.token and redis.call('GET', keys.token)\n${BODY}` });
    expect(await embed(path)).toEqual({ code: 0, stderr: '' });
    expect(entriesOf(path).a).toEqual({
      keys: 2,
      args: 1,
      lua: `local t = KEYS[2] and redis.call('GET', KEYS[2])\n${BOUND}`,
    });
  });

  it('embeds an include once', async () => {
    const ours = "local function ours() return redis.call('GET', keys.lock) == args.owner end";
    const header = `${HEADER}--- @include ./includes/ours.lua\n`;
    const lua = await luaOf(`${header}--- @include ./includes/ours.lua\nreturn ours() or ours()\n`, {
      'ours.lua': `--[[ Returns whether it is ours. ]]\n${ours}\n`,
    });
    expect(lua).toBe("local function ours() return redis.call('GET', KEYS[1]) == ARGV[1] end\nreturn ours() or ours()");
  });

  it('embeds an include before the first statement that needs it', async () => {
    const header = `${HEADER}--- @include ./includes/late.lua\n--- @include ./includes/early.lua\n`;
    const lua = await luaOf(
      `${header}local first = redis.call('GET', keys.lock)\nif first then\n  return early()\nend\nreturn late(args.owner)\n`,
      {
        'early.lua': 'local function early() return 1 end\n',
        'late.lua':
          '--- @include ./early.lua\n--- @include ./inner.lua\nlocal function late() return early(inner) end\n',
        'inner.lua': 'local inner = 2\n',
      },
    );
    expect(lua.split('\n')).toEqual([
      "local first = redis.call('GET', KEYS[1])",
      'local function early() return 1 end',
      'if first then',
      'return early()',
      'end',
      'local inner = 2',
      'local function late() return early(inner) end',
      'return late(ARGV[1])',
    ]);
  });

  it('binds the keys of includes to the positions in the script', async () => {
    const header = HEADER.replace('keys.lock', 'keys.queue');
    const body = "return redis.call('GET', keys.queue) == args.owner and life()\n";
    const lua = await luaOf(`${header}--- @include ./includes/life.lua\n${body}`, {
      'life.lua': "--- @include ./left.lua\nlocal function life() return left() - redis.call('PTTL', keys.queue) end\n",
      'left.lua': "local function left() return redis.call('PTTL', keys.queue) end\n",
    });
    expect(lua).toContain(
      "local function left() return redis.call('PTTL', KEYS[1]) end\n" +
        "local function life() return left() - redis.call('PTTL', KEYS[1]) end\n",
    );
  });

  it('lets one marked include compute keys, without commands', async () => {
    const script = `${HEADER}--- @include ./includes/next-key.lua\nnextKey()\n${BODY}`;
    const include = 'local function nextKey() KEYS[1] = KEYS[2] end\n';
    const lua = await luaOf(script, { 'next-key.lua': `--- @computed-keys\n${include}` });
    expect(lua).toBe(`local function nextKey() KEYS[1] = KEYS[2] end\nnextKey()\n${BOUND}`);
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

  it.each([
    ['no header', BODY, 'must begin with a --[[ header ]]'],
    [
      'a header without a guarantee',
      HEADER.replace('Deletes the lock if it is still ours.', '') + BODY,
      'must first say what the script does',
    ],
    ['no returns line', HEADER.replace('returns', 'gives') + BODY, 'a line "returns …"'],
    ['a key without a name', HEADER.replace('keys.lock', 'keys.') + BODY, 'the header must name keys.'],
    ['a key by its number', HEADER.replace('keys.lock', 'KEYS[1]') + BODY, 'the header must name KEYS[1]'],
    [
      'a key declared twice',
      HEADER.replace('keys.lock', 'keys.lock\n keys.lock') + BODY,
      'keys.lock is declared twice',
    ],
    [
      'an optional argument before another',
      HEADER.replace('args.owner', 'args.ms?\n  args.owner') + BODY,
      'args.owner stands behind an optional one',
    ],
    [
      'an undocumented key',
      `${HEADER}${BODY}redis.call('DEL', keys.queue)`,
      'keys.queue is used but not in the header',
    ],
    ['an undocumented key, spaced', `${HEADER}${BODY}redis.call('DEL', keys . queue)`, 'keys.queue is used but not'],
    ['an undocumented argument', `${HEADER}${BODY}return args.leaseMs`, 'args.leaseMs is used but not in the header'],
    [
      'an unused argument',
      HEADER.replace('args.owner', 'args.owner\n  args.leaseMs') + BODY,
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
  ])('refuses %s', async (_what, script, message) => {
    const { code, stderr } = await embed(folder({ 'bad.lua': script, 'includes/a.lua': 'local a = 1\n' }));
    expect(stderr).toContain(`bad.lua: `);
    expect(stderr).toContain(message);
    expect(code).toBe(1);
  });
});
