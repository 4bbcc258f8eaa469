import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

const EMBED = resolve(__dirname, '../../../lib/lua/embed.mjs');
const HEADER = '--[[ Delete the lock if still ours.\n  KEYS[1] lock   ARGV[1] owner\n  returns 1 | 0 ]]\n';
const BODY = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end\nreturn 0\n";

let root: string;
beforeAll(() => void (root = mkdtempSync(join(tmpdir(), 'lua-embed-'))));
afterAll(() => rmSync(root, { recursive: true }));

function embed(...args: string[]): Promise<{ code: number; stderr: string }> {
  return new Promise((done) =>
    execFile(process.execPath, [EMBED, ...args], (error, _stdout, stderr) => done({ code: error ? 1 : 0, stderr })),
  );
}

function folder(files: Record<string, string>): string {
  const path = mkdtempSync(join(root, 'scripts-'));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true });
    writeFileSync(join(path, name), text);
  }
  return path;
}

const generated = (path: string): string => readFileSync(join(path, 'index.ts'), 'utf8');

/** The generated strings, by name. */
function scripts(path: string): Record<string, { keys: number; args: number; lua: string }> {
  const entries = generated(path).matchAll(/^ {2}(\w+): \{ keys: (\d+), args: (\d+), lua: (".*") \},$/gm);
  return Object.fromEntries(
    [...entries].map(([, name, keys, args, lua]) => [name, { keys: +keys, args: +args, lua: JSON.parse(lua) }]),
  );
}

describe('lib/lua/embed.mjs', () => {
  it('finds the committed index up to date', async () => {
    expect(await embed('--check')).toEqual({ code: 0, stderr: '' });
  });

  it('embeds lean code and leaves strings as they are', async () => {
    const tricky =
      "local text = '-- no comment `${x}` \\' \\\\' -- a comment\n\n\n  --[==[ long ]] one ]==]\n  local more = [[\n  -- kept\n]]\n";
    const path = folder({ 'token-release.lua': `${HEADER}${tricky}${BODY}` });
    expect(await embed(path)).toEqual({ code: 0, stderr: '' });
    expect(scripts(path)).toEqual({
      tokenRelease: {
        keys: 1,
        args: 1,
        lua: `local text = '-- no comment \`\${x}\` \\' \\\\'\nlocal more = [[\n  -- kept\n]]\n${BODY.trim()}`,
      },
    });
  });

  it('refuses an index that is out of date', async () => {
    const path = folder({ 'a.lua': `${HEADER}${BODY}` });
    expect((await embed('--check', path)).stderr).toContain('out of date');
    await embed(path);
    expect((await embed('--check', path)).code).toBe(0);
    writeFileSync(join(path, 'a.lua'), `${HEADER}${BODY}-- a comment changes nothing\n`);
    expect((await embed('--check', path)).code).toBe(0);
    writeFileSync(join(path, 'a.lua'), `${HEADER}${BODY.replace('return 0', 'return 2')}`);
    expect((await embed('--check', path)).stderr).toContain('out of date');
  });

  it('puts an include in its place, once', async () => {
    const include =
      "--[[ Says whether it is ours. ]]\nlocal function ours() return redis.call('GET', KEYS[1]) == ARGV[1] end\n";
    const path = folder({
      'a.lua': `${HEADER}--- @include ours\n--- @include ours\nreturn ours()\n`,
      'includes/ours.lua': include,
    });
    expect(await embed(path)).toEqual({ code: 0, stderr: '' });
    expect(scripts(path).a.lua).toBe(
      "local function ours() return redis.call('GET', KEYS[1]) == ARGV[1] end\nreturn ours()",
    );
  });

  it('puts another key in the place of an include’s, where it is told to', async () => {
    const path = folder({
      'a.lua': `${HEADER}--- @include life at KEYS[1]\n${BODY}`,
      'includes/life.lua': "--- @include left\nlocal life = left() - redis.call('PTTL', KEYS[3])\n",
      'includes/left.lua': "local function left() return redis.call('PTTL', KEYS[3]) end\n",
    });
    expect(await embed(path)).toEqual({ code: 0, stderr: '' });
    expect(scripts(path).a.lua).toContain(
      "local function left() return redis.call('PTTL', KEYS[1]) end\nlocal life = left() - redis.call('PTTL', KEYS[1])\n",
    );
  });

  it('refuses includes in a cycle, and those that are not there', async () => {
    const cycle = folder({
      'x.lua': `${HEADER}--- @include a\n${BODY}`,
      'includes/a.lua': '--- @include b\n',
      'includes/b.lua': '--- @include a\n',
    });
    expect((await embed(cycle)).stderr).toContain('x.lua: include cycle: x > a > b > a');
    const missing = folder({ 'x.lua': `${HEADER}--- @include none\n${BODY}` });
    expect((await embed(missing)).stderr).toContain('x.lua: no such include: none');
  });

  it.each([
    ['no header', BODY, 'must begin with a --[[ header ]]'],
    [
      'a header that guarantees nothing',
      HEADER.replace('Delete the lock if still ours.', '') + BODY,
      'what the script guarantees',
    ],
    ['no returns line', HEADER.replace('returns', 'gives') + BODY, 'a line "returns …"'],
    ['a key without a name', HEADER.replace('] lock', ']') + BODY, 'must name KEYS[1]'],
    ['an undocumented key', `${HEADER}${BODY}redis.call('DEL', KEYS[2])`, 'KEYS[2] is used but not in the header'],
    ['an undocumented key, spaced', `${HEADER}${BODY}redis.call('DEL', KEYS [2])`, 'KEYS[2] is used but not'],
    ['an undocumented argument', `${HEADER}${BODY}return ARGV[2]`, 'ARGV[2] is used but not in the header'],
    [
      'an argument nobody uses',
      HEADER.replace('owner', 'owner ARGV[2] lease') + BODY,
      'ARGV[2] is in the header but not used',
    ],
    ['a gap in the numbers', (HEADER + BODY).replaceAll('ARGV[1]', 'ARGV[2]'), 'ARGV[1] is missing'],
    ['a copied key', `${HEADER}local key = KEYS[1]\n${BODY}`, 'never in a copy'],
    ['a key given to a function', `${HEADER}${BODY}grant(KEYS[1])`, 'never in a copy'],
    ['all keys at once', `${HEADER}${BODY}return #KEYS`, 'never in a copy'],
    ['a built key', `${HEADER}${BODY}redis.call('GET', KEYS[1] .. ':x')`, 'a key must be a literal KEYS[n]'],
    ['a key from a variable', `${HEADER}${BODY}redis.call('GET', key)`, 'a key must be a literal KEYS[n], found key'],
    ['a second key that is not literal', `${HEADER}${BODY}redis.call('DEL', KEYS[1], other)`, 'found other'],
    ['a computed index', `${HEADER}${BODY}redis.call('GET', KEYS[i])`, 'a key must be a literal KEYS[n]'],
    ['a computed argument', `${HEADER}${BODY}return ARGV[i]`, 'ARGV needs a literal index'],
    ['a command from a variable', `${HEADER}${BODY}redis.call(verb, KEYS[1])`, 'needs a literal command'],
    ['SELECT', `${HEADER}${BODY}redis.call('select', 1)`, 'SELECT is not portable'],
    ['redis.log', `${HEADER}${BODY}redis.log(redis.LOG_NOTICE, 'x')`, 'redis.log is not portable'],
    ['an alias of redis.call', `${HEADER}local call = redis.call\n${BODY}`, 'must be called where it is named'],
    ['an alias of redis', `${HEADER}local r = redis\n${BODY}`, 'only be used as redis.name'],
    ['another clock', `${HEADER}${BODY}return os.clock()`, "no clock but redis.call('TIME')"],
  ])('refuses %s', async (_what, script, message) => {
    const { code, stderr } = await embed(folder({ 'bad.lua': script }));
    expect(stderr).toContain(`bad.lua: `);
    expect(stderr).toContain(message);
    expect(code).toBe(1);
  });
});
