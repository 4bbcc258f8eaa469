// The command line on locks that a test gives: arguments, what is printed, and exit codes.
import { describe, expect, it } from '@jest/globals';
import { LockConfigError, type LockInfo, LockKeyError, LockUnavailableError } from 'nestjs-redis-lock';
import { HELP } from '../../../lib/cli/arguments.js';
import { CliError, EXIT } from '../../../lib/cli/cli-error.js';
import type { AdminSettings, LockAdmin } from '../../../lib/cli/lock-admin.js';
import { formatDuration } from '../../../lib/cli/lock-view.js';
import { printable, printableJson } from '../../../lib/cli/printable.js';
import { run } from '../../../lib/cli/run.js';
import type { RedisClusterOptions } from '../../../lib/redis/redis-client.js';
import { resolveOptions } from '../../../lib/options/resolve-options.js';
import { FakeTerminal } from '../../support/fake-terminal.js';

const LIST_TITLES = /^RESOURCE +MODE +HOLDER +HELD FOR +LEASE +TOKEN +WAITING$/;

const holder = (identity: string | undefined) => ({
  holder: identity === undefined ? 'value of another system' : `${identity}-AbCdEfGhIjKlMnOp`,
  identity,
  isOwn: false,
  expiresInMs: 29_400,
  fencingToken: undefined,
});
const waiter = (identity: string, permits?: number) => ({
  waiter: `${identity}-AbCdEfGhIjKlMnOp`,
  identity,
  isOwn: false,
  mode: permits === undefined ? ('exclusive' as const) : ('shared' as const),
  permits,
});

/** Returns a lock that `api-1` holds alone, but for what is given. */
function held(resource: string, other: object = {}): LockInfo {
  const base = { resource, key: `{lock_${resource}}`, isHeld: true, ...holder('api-1'), heldForMs: undefined };
  return { ...base, mode: 'exclusive', permits: undefined, others: [], waiting: [], ...other } as LockInfo;
}

/** Returns a lock that nobody holds and `api-2` waits for. */
function awaited(resource: string): LockInfo {
  const none = { isHeld: false, holder: undefined, identity: undefined, mode: undefined, expiresInMs: 0 };
  return held(resource, { ...none, waiting: [waiter('api-2')] });
}

interface Scene {
  readonly terminal?: FakeTerminal;
  readonly env?: NodeJS.ProcessEnv;
  /** What Redis has, each time that it is asked. The last one stays. Default: no lock. */
  readonly locks?: readonly (readonly LockInfo[])[];
  /** Why Redis cannot be used. */
  readonly failure?: Error;
  /** Whether a release finds the hold. Default: true. */
  readonly finds?: boolean;
}

/** Runs a command as a shell splits it. */
async function cli(line: string | readonly string[], scene: Scene = {}) {
  const { terminal = new FakeTerminal(), env = {}, locks = [[]], failure, finds = true } = scene;
  const looks = [...locks];
  const look = (): readonly LockInfo[] => (looks.length > 1 ? looks.shift() : looks[0]) ?? [];
  const released: (number | undefined)[] = [];
  let settings: AdminSettings | undefined;
  const openAdmin = async (given: AdminSettings): Promise<LockAdmin> => {
    settings = given;
    if (failure !== undefined) throw failure;
    return {
      keyOf: (resource) => `{lock_${resource}}`,
      async *list() {
        yield* look();
      },
      inspect: async () => look()[0] ?? null,
      release: async (_resource, token) => {
        released.push(token);
        return finds;
      },
      close: async () => undefined,
    };
  };
  const args = typeof line === 'string' ? line.split(' ').filter(Boolean) : line;
  const code = await run(args, { version: '1.2.3', env, terminal, openAdmin });
  const { out, err, questions } = terminal;
  return { code, out, err, questions, released, settings };
}

describe('arguments', () => {
  it.each<[string, object]>([
    ['list', { prefix: 'lock_', hashTag: 'family', key: undefined }],
    ['list --prefix shop:lock_ --hash-tag resource', { prefix: 'shop:lock_', hashTag: 'resource' }],
    ['--prefix a list --prefix= ', { prefix: '' }],
    ['inspect goods:300 --key', { key: expect.any(Function) }],
  ])('%s', async (line, settings) => {
    expect((await cli(line)).settings).toMatchObject(settings);
  });

  it('have the defaults of the module', async () => {
    const { prefix, hashTag } = resolveOptions({});
    expect((await cli('list')).settings).toMatchObject({ prefix, hashTag });
  });

  it.each([
    ['', 'No command is given; expected list, inspect, release.'],
    ['--json', 'No command is given'],
    ['nonsense', "There is no command 'nonsense'; expected list, inspect, release."],
    ['constructor', "There is no command 'constructor'"],
    ['inspect', 'inspect takes one resource, not 0.'],
    ['list more', 'list takes no argument, not 1.'],
    ['release a b', 'release takes one resource, not 2.'],
    ['list --nonsense', "Unknown option '--nonsense'"],
    ['list -x', "Unknown option '-x'"],
    ['list --key', 'list has no option --key.'],
    ['inspect a --match b', 'inspect has no option --match.'],
    ['list --json=1', "Option '--json' does not take an argument"],
    ['list --match', "Option '--match <value>' argument missing"],
    ['list --prefix --json', "Option '--prefix' argument is ambiguous."],
    ['list --hash-tag none', "--hash-tag is 'none'; expected family or resource."],
    ['release a --if-token 0', "--if-token is '0'; expected a whole number from 1 up."],
    ['release a --if-token 9007199254740993', "--if-token is '9007199254740993'; expected a whole number"],
  ])('%j are refused with exit code 2', async (line, message) => {
    const { code, out, err } = await cli(line);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(/^error: [^\n]* Try nestjs-redis-lock --help\.\n$/);
    expect(err).toContain(message);
  });

  it.each(['--help', '-h', 'list --help', 'release -h'])('%s prints the help', async (line) => {
    expect(await cli(line)).toMatchObject({ code: 0, out: HELP, err: '', settings: undefined });
  });

  it('--version prints the version', async () => {
    expect(await cli('list --version')).toMatchObject({ code: 0, out: '1.2.3\n' });
  });
});

describe('where Redis is', () => {
  const target = async (line: string, env: NodeJS.ProcessEnv = {}) =>
    (await cli(`list ${line}`, { env })).settings?.target;
  const server = (host: string, port = 6379) => ({ host, port });

  it.each<[string, NodeJS.ProcessEnv, object, string]>([
    ['', {}, server('127.0.0.1'), '127.0.0.1:6379'],
    ['', { REDIS_URL: '' }, server('127.0.0.1'), '127.0.0.1:6379'],
    ['', { REDIS_URL: 'redis://b:1' }, server('b', 1), 'b:1'],
    ['--url redis://a', { REDIS_URL: 'redis://b:1' }, server('a'), 'a:6379'],
    ['--url a:7000', {}, server('a', 7000), 'a:7000'],
    ['--url rediss://a/4', {}, { ...server('a'), db: 4, tls: {} }, 'a:6379'],
    ['--url redis://[::1]:7000/', {}, server('::1', 7000), '[::1]:7000'],
    ['--url redis://u:p%40ss@a', {}, { ...server('a'), username: 'u', password: 'p@ss' }, 'a:6379'],
    ['--url redis://a?family=6&db=2', {}, { ...server('a'), family: 6, db: '2' }, 'a:6379'],
    ['--url a --key-prefix app:', {}, { ...server('a'), keyPrefix: 'app:' }, 'a:6379'],
    ['--url /run/redis.sock', {}, { path: '/run/redis.sock' }, '/run/redis.sock'],
  ])('%s with %j: one server', async (line, env, redis, shown) => {
    const found = await target(line, env);
    expect(found).toMatchObject({ redis, shown });
    expect(found?.redis).toEqual(redis);
  });

  it.each(['--url redis://me:p@a:1,b --key-prefix app:', '--url redis://me:p@a:1 --url redis://b --key-prefix app:'])(
    '%s: a cluster',
    async (line) => {
      const redis = {
        nodes: [server('a', 1), server('b')],
        redisOptions: { username: 'me', password: 'p', keyPrefix: 'app:' },
        keyPrefix: 'app:',
      };
      expect(await target(line)).toEqual({ redis, asCluster: redis, shown: 'a:1,b:6379' });
    },
  );

  it('a cluster over TLS keeps the names of hosts, for certificates', async () => {
    const { redis } = (await target('--url rediss://a.example,b.example')) ?? {};
    expect(redis).toMatchObject({ redisOptions: { tls: {} } });
    const found: unknown[] = [];
    (redis as RedisClusterOptions).dnsLookup?.('a.example', (...args) => found.push(...args));
    expect(found).toEqual([null, 'a.example']);
  });

  it('a master behind Sentinels is given by its name', async () => {
    const env = { REDIS_SENTINEL_USERNAME: 'watcher', REDIS_SENTINEL_PASSWORD: 'other' };
    expect(await target('--sentinel locks --url rediss://me:p@a,b:26380/1', env)).toEqual({
      redis: {
        sentinels: [server('a', 26_379), server('b', 26_380)],
        name: 'locks',
        db: 1,
        username: 'me',
        password: 'p',
        tls: {},
        sentinelUsername: 'watcher',
        sentinelPassword: 'other',
        sentinelTLS: {},
        enableTLSForSentinelMode: true,
      },
      asCluster: undefined,
      shown: 'locks of the Sentinels a:26379,b:26380',
    });
  });

  it.each([
    'redis://',
    'http://u:secret@a',
    'redis://:se/cret@a:x',
    'redis://:se/cret@a',
    'redis://:se,cret@a:x',
    'redis://u:123?cret@a',
    'redis://u:123#cret@a',
    'redis://u:50%cret@a',
    'redis://a/locks',
    'redis://a:99999',
    'redis-cluster://a:1',
  ])('%s is refused without its password', async (url) => {
    const { code, err } = await cli(`list --url ${url}`);
    expect(code).toBe(2);
    expect(err).toContain('; expected redis://host:6379/0, rediss:// for TLS, or the path of a socket.');
    expect(err).not.toContain('cret');
  });
});

describe('list', () => {
  it('prints a table, sorted by resource', async () => {
    const locks = [
      held('pool', { mode: 'shared', permits: 5, others: [holder('api-2')] }),
      held('goods:300', { fencingToken: 1795392000000000, heldForMs: 4_200, waiting: [waiter('api-2')] }),
      held('menu', { mode: 'shared', others: [holder('api-2'), holder('api-3')] }),
      awaited('stuck'),
      held('foreign', { ...holder(undefined), expiresInMs: Infinity }),
    ];
    const { code, out, err } = await cli('list', { locks: [locks] });
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const [titles, ...rows] = out.trimEnd().split('\n');
    expect(titles).toMatch(LIST_TITLES);
    expect(rows.map((row) => row.split(/ {2,}/))).toEqual([
      ['foreign', 'exclusive', 'value of another system', '-', 'unlimited', '-', '0'],
      ['goods:300', 'exclusive', 'api-1', '4.2 s', '29.4 s', '1795392000000000', '1'],
      ['menu', 'shared', 'api-1 and 2 others', '-', '29.4 s', '-', '0'],
      ['pool', '2 of 5 permits', 'api-1 and 1 other', '-', '29.4 s', '-', '0'],
      ['stuck', '-', 'nobody', '-', '-', '-', '1'],
    ]);
  });

  it('shows hostile names as escapes', async () => {
    const locks = [[held('goods:\u202e1', { holder: 'line\nbreak\u001b[2J', identity: undefined })]];
    const { out } = await cli('list', { locks });
    expect(out.split('\n')).toHaveLength(3);
    expect(out).toContain(String.raw`goods:\u{202e}1`);
    expect(out).toContain(String.raw`line\u{a}break\u{1b}[2J`);
  });

  it('names the options if there are no locks, and succeeds', async () => {
    const err = 'No lock that matches goods:* is held or awaited under --prefix "lock_" and --hash-tag family.\n';
    expect(await cli('list --match goods:*')).toMatchObject({ code: 0, out: '', err });
    expect(await cli('list --json')).toMatchObject({ code: 0, out: '', err: '' });
  });
});

describe('inspect', () => {
  it('prints the holders and the queue, and who has another version', async () => {
    const waiting = [{ ...waiter('api-2'), wireVersion: 2 }, waiter('api-3', 5)];
    const lock = held('goods:300', { fencingToken: 17, heldForMs: 61_000, waiting, wireVersion: 2 });
    const { code, out } = await cli('inspect goods:300', { locks: [[lock]] });
    expect(code).toBe(0);
    expect(out.split('\n')).toEqual([
      'goods:300',
      '  key       {lock_goods:300}',
      '  state     held, exclusive',
      '  holder    api-1 (another version: wire 2)',
      '            api-1-AbCdEfGhIjKlMnOp',
      '  lease     29.4 s',
      '  held for  1.0 min',
      '  token     17',
      '  waiting   2',
      '            1. api-2 (another version: wire 2), exclusive',
      '            2. api-3, one of 5 permits',
      '',
    ]);
  });

  it('prints all sharers, a lock that is only awaited, and the value of another system', async () => {
    const shared = await cli('inspect menu', {
      locks: [[held('menu', { mode: 'shared', others: [holder('api-2')] })]],
    });
    expect(shared.out.match(/^ {2}holder .*$/gm)).toEqual(['  holder    api-1', '  holder    api-2']);
    expect((await cli('inspect stuck', { locks: [[awaited('stuck')]] })).out).toContain(
      'nobody holds it, and others wait',
    );
    const foreign = held('foreign', { ...holder(undefined), expiresInMs: Infinity });
    expect((await cli('inspect foreign', { locks: [[foreign]] })).out).toContain('without end: another system wrote');
  });

  it('has exit code 4 for a free lock, and names its key', async () => {
    const err = 'Nobody holds goods:300 or waits for it. Its key is {lock_goods:300}.\n';
    expect(await cli('inspect goods:300')).toMatchObject({ code: 4, out: '', err });
    expect(await cli('inspect goods:300 --json')).toMatchObject({ code: 4, out: 'null\n', err: '' });
  });

  it('prints null for what is not known, with the same fields for each lock', async () => {
    const json = async (lock: LockInfo) => {
      return JSON.parse((await cli('inspect a --json', { locks: [[lock]] })).out) as Record<string, unknown>;
    };
    const foreign = await json(held('a', { ...holder(undefined), expiresInMs: Infinity, heldForMs: 1.4 }));
    expect(foreign).toEqual({
      resource: 'a',
      key: '{lock_a}',
      isHeld: true,
      holder: 'value of another system',
      identity: null,
      expiresInMs: null,
      fencingToken: null,
      heldForMs: 1,
      mode: 'exclusive',
      permits: null,
      others: [],
      waiting: [],
    });
    expect(Object.keys(await json(awaited('a')))).toEqual(Object.keys(foreign));
  });
});

describe('release', () => {
  const goods = held('goods:300', { fencingToken: 17, heldForMs: 4_200, waiting: [waiter('api-2')] });
  const shared = held('goods:300', { mode: 'shared' });

  it('shows the holder, asks, and releases the hold that was shown', async () => {
    const { questions, released, ...rest } = await cli('release goods:300', {
      terminal: new FakeTerminal('y'),
      locks: [[goods]],
    });
    expect(questions).toEqual([
      'goods:300 is held by api-1 for 4.2 s (exclusive). Waiting: 1.\n' +
        'The work of the holder may still be running. Release it by force? [y/N] ',
    ]);
    expect(released).toEqual([17]);
    expect(rest).toMatchObject({ code: 0, out: 'goods:300 was released. api-1 held it.\n', err: '' });
  });

  it.each(['', 'n', 'yess'])('does not release after %j', async (reply) => {
    const refused = await cli('release goods:300', { terminal: new FakeTerminal(reply), locks: [[goods]] });
    expect(refused).toMatchObject({ code: 4, released: [], err: 'goods:300 was not released: not confirmed.\n' });
  });

  it('says of a lock whose work is done that the work may run again, with hostile names as escapes', async () => {
    const evil = { holder: '\u001b[2Jevil', identity: undefined };
    const locks = [[held('goods:300', { isDone: true, expiresInMs: 42_000, ...evil })]];
    const { questions } = await cli('release goods:300', { terminal: new FakeTerminal('n'), locks });
    expect(questions).toEqual([
      String.raw`goods:300 is done by \u{1b}[2Jevil for another 42.0 s. Waiting: 0.` +
        '\nThe next call does the work again. Release it by force? [y/N] ',
    ]);
  });

  it('refuses to ask without a terminal', async () => {
    const { code, err, released } = await cli('release goods:300', { locks: [[goods]] });
    expect({ code, released }).toEqual({ code: 2, released: [] });
    expect(err).toContain('Pass --yes to skip it.');
  });

  it.each(['--yes', '-y', '--yes --if-token 17'])('asks nothing with %s', async (options) => {
    const done = await cli(`release goods:300 ${options}`, { locks: [[goods]] });
    expect(done).toMatchObject({ code: 0, questions: [], released: [17] });
  });

  it('releases all holds of a shared lock, but not an exclusive hold that has followed it', async () => {
    expect(await cli('release goods:300 -y', { locks: [[shared]] })).toMatchObject({ code: 0, released: [undefined] });
    const err = 'goods:300 was not released: the hold ended before the release.\n';
    expect(await cli('release goods:300 -y', { locks: [[shared], [goods]] })).toMatchObject({ released: [], err });
  });

  it.each<[string, readonly LockInfo[], string, string]>([
    ['a free lock', [], '', 'nobody holds it. Its key is {lock_goods:300}.'],
    ['a lock that is only awaited', [awaited('goods:300')], '', 'nobody holds it, and others wait for it.'],
    ['the hold of another token', [goods], '--if-token 16', 'its token is 17, not 16.'],
    ['a shared lock by a token', [shared], '--if-token 16', 'its token is unknown, not 16.'],
  ])('does not release %s', async (_name, locks, options, why) => {
    const refused = await cli(`release goods:300 --yes ${options}`, { locks: [locks] });
    expect(refused).toMatchObject({ code: 4, released: [], err: `goods:300 was not released: ${why}\n` });
  });

  it('says with --json that the hold has ended before the release', async () => {
    const { code, out } = await cli('release goods:300 --json --yes', { locks: [[goods]], finds: false });
    expect(code).toBe(4);
    expect(JSON.parse(out)).toMatchObject({
      resource: 'goods:300',
      released: false,
      reason: 'the hold ended before the release',
      lock: { identity: 'api-1', fencingToken: 17 },
    });
  });
});

describe('an error', () => {
  it.each([
    ['CliError', new CliError(EXIT.unavailable, 'wrong'), 3],
    ['LockConfigError', new LockConfigError('wrong'), 2],
    ['LockKeyError', new LockKeyError('wrong'), 2],
    ['LockUnavailableError', new LockUnavailableError('wrong'), 3],
  ])('is one line: %s', async (_name, failure, code) => {
    expect(await cli('list', { failure })).toMatchObject({ code, err: 'error: wrong\n', out: '' });
  });

  it('that is a defect is shown with its stack, with exit code 1', async () => {
    const failure = new TypeError('x is undefined');
    failure.stack = 'TypeError: x is undefined\n    at connect (redis://:s3cret@a)';
    const err = 'error: TypeError: x is undefined\n    at connect (redis://***@a)\n';
    expect(await cli('list', { failure })).toMatchObject({ code: 1, err });
  });

  it('is shown without passwords and hostile characters', async () => {
    const failure = new LockUnavailableError('\u001b[2J redis://:s3cret@a');
    expect((await cli('list', { failure })).err).toBe(String.raw`error: \u{1b}[2J redis://***@a` + '\n');
    expect((await cli('redis://:s3cret@a')).err).toContain("There is no command 'redis://***@a'");
    expect((await cli(['list', '--\u001b[2J'])).err).toContain(String.raw`Unknown option '--\u{1b}[2J'`);
  });
});

/** Texts that a terminal may interpret, hide or reorder, each with what is shown. */
const HOSTILE: readonly (readonly [name: string, text: string, shown: string])[] = [
  ['a line break', 'a\nb', String.raw`a\u{a}b`],
  ['a carriage return', 'a\rb', String.raw`a\u{d}b`],
  ['a color', '\u001b[31mred', String.raw`\u{1b}[31mred`],
  ['the one-byte start of a sequence', '\u009b31m', String.raw`\u{9b}31m`],
  ['a title of the window', '\u001b]0;x\u0007', String.raw`\u{1b}]0;x\u{7}`],
  ['a bidi override', 'goods:\u202egnp', String.raw`goods:\u{202e}gnp`],
  ['a bidi isolate', '\u2066x\u2069', String.raw`\u{2066}x\u{2069}`],
  ['a character without width', 'a\u200bb', String.raw`a\u{200b}b`],
  ['a separator of lines', 'a\u2028b', String.raw`a\u{2028}b`],
  ['a no-break space', 'a\u00a0b', String.raw`a\u{a0}b`],
  ['half a character', 'a\ud800b', String.raw`a\u{d800}b`],
  ['an unassigned character', 'a\u{e0080}b', String.raw`a\u{e0080}b`],
  ['a backslash', String.raw`a\u{a}b`, String.raw`a\\u{a}b`],
  ['many combining marks', 'a\u0301\u0301\u0301', String.raw`a\u{301}\u{301}\u{301}`],
];

describe('a hostile name', () => {
  it.each(HOSTILE)('is escaped: %s', (_name, text, shown) => {
    expect(printable(text)).toBe(shown);
  });

  it.each(HOSTILE)('is harmless and means the same in JSON: %s', (_name, text) => {
    const json = printableJson({ resource: text });
    expect(json).toMatch(/^[^\p{C}\p{Zl}\p{Zp}]*\n$/u);
    expect(JSON.parse(json)).toEqual({ resource: text });
  });

  it.each(['goods:300', 'order/5 <b>&amp;</b> "x"', 'größe:1', 'orden\u0303o', '商品:300', 'товар', '🛒:1'])(
    'is not %j',
    (text) => {
      expect(printable(text)).toBe(text);
    },
  );
});

it.each([
  [0.2, '0 ms'],
  [850, '850 ms'],
  [4_200, '4.2 s'],
  [185_000, '3.1 min'],
  [9_000_000, '2.5 h'],
  [276_480_000, '3.2 d'],
  [Infinity, 'unlimited'],
])('%d ms are shown as %s', (ms, shown) => {
  expect(formatDuration(ms)).toBe(shown);
});
