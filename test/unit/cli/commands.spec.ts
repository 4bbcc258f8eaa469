import { describe, expect, it } from '@jest/globals';
import type { CommandContext } from '../../../lib/cli/commands/context.js';
import { inspect } from '../../../lib/cli/commands/inspect.js';
import { list } from '../../../lib/cli/commands/list.js';
import { release, type ReleaseArguments } from '../../../lib/cli/commands/release.js';
import { watch } from '../../../lib/cli/commands/watch.js';
import type { LockInfo } from '../../../lib/lock-info.js';
import { ManualClock } from '../../../lib/testing/manual-clock.js';
import { deferred, outcome } from '../../support/async.js';
import { FakeOutput, FakeTerminal } from '../../support/fake-terminal.js';
import { awaitedView, heldView, holderOf, waiterOf } from '../../support/lock-views.js';

/** What one listing yields, throws, or waits for. */
type Listing = readonly LockInfo[] | Error | Promise<readonly LockInfo[]>;

/** A context whose locks are given: one listing after the other, and the last one again and again. */
class Scene {
  readonly clock = new ManualClock();
  readonly released: (number | undefined)[] = [];
  readonly context: CommandContext;
  /** Whether a release finds the hold. */
  finds = true;
  /** A key that looks like a lock and is not listed. */
  otherKey: string | undefined;

  constructor(
    readonly terminal: FakeTerminal,
    private readonly listings: Listing[],
    json = false,
  ) {
    this.context = {
      admin: {
        keyOf: (resource) => `{lock_${resource}}`,
        list: (_match, onOtherKey) => this.list(onOtherKey),
        inspect: async () => {
          for await (const view of this.list()) return view;
          return null;
        },
        release: (_resource, token) => {
          this.released.push(token);
          return Promise.resolve(this.finds);
        },
      },
      terminal,
      clock: this.clock,
      keys: { prefix: 'lock_', hashTag: 'family' },
      shown: 'redis://a',
      json,
      messageOf: (error) => (error as Error).message,
    };
  }

  private async *list(onOtherKey?: (key: string) => void): AsyncGenerator<LockInfo> {
    if (this.otherKey !== undefined) onOtherKey?.(this.otherKey);
    const listing = this.listings.length > 1 ? this.listings.shift() : this.listings[0];
    if (listing instanceof Error) throw listing;
    yield* (await listing) ?? [];
  }
}

/** Shows the cursor and what was on the terminal before. */
const RESTORED = '\u001b[?25h\u001b[?1049l';

const PIPE = (): FakeTerminal => new FakeTerminal();
const TERMINAL = (...replies: (string | undefined)[]): FakeTerminal => new FakeTerminal(true, replies);

/** A terminal whose stdout leads to another program. */
function pipeWithTerminal(): FakeTerminal {
  const terminal = new FakeTerminal();
  return Object.assign(terminal, { stderr: new FakeOutput(true) });
}

describe('list', () => {
  it('prints a table that is sorted by resource', async () => {
    const { context, terminal } = new Scene(PIPE(), [[heldView('b'), awaitedView('c'), heldView('a')]]);
    expect(await list(context, undefined)).toBe(0);
    expect(terminal.stdout.lines.map((line) => line.slice(0, 8).trim())).toEqual(['RESOURCE', 'a', 'b', 'c']);
    expect(terminal.stderr.text).toBe('');
  });

  it('is as wide as the terminal at most if an identity is long', async () => {
    const terminal = TERMINAL();
    terminal.stdout.columns = 80;
    const { context } = new Scene(terminal, [[heldView('goods:300', holderOf('task/'.repeat(16))), heldView('menu')]]);
    expect(await list(context, undefined)).toBe(0);
    expect(terminal.stdout.lines.filter((line) => line.length > 80)).toEqual([]);
    expect(terminal.stdout.lines[1]).toMatch(/^goods:300 {2}exclusive {2}task\/.*… /);
    expect(terminal.stdout.lines[0]).toContain('WAITING');
  });

  it('prints one object a line', async () => {
    const { context, terminal } = new Scene(PIPE(), [[heldView('b'), heldView('a')]], true);
    expect(await list(context, undefined)).toBe(0);
    const found = terminal.stdout.lines.map((line) => (JSON.parse(line) as { resource: string }).resource);
    expect(found).toEqual(['b', 'a']);
  });

  it('names the options if there are no locks, and is not an error', async () => {
    const { context, terminal } = new Scene(PIPE(), [[]]);
    expect(await list(context, 'goods:*')).toBe(0);
    expect(terminal.stdout.text).toBe('');
    const line = 'No lock that matches goods:* is held or awaited under --prefix "lock_" and --hash-tag family.\n';
    expect(terminal.stderr.text).toBe(line);
  });

  it.each([false, true])('names a key that is not listed and looks like a lock, as JSON: %j', async (json) => {
    const scene = new Scene(PIPE(), [[heldView('a')]], json);
    scene.otherKey = 'app:{lock_goods}:\u001b';
    expect(await list(scene.context, undefined)).toBe(0);
    expect(scene.terminal.stderr.text).toBe(
      String.raw`Keys such as app:{lock_goods}:\u{1b} look like locks but are not listed. ` +
        "Check that --prefix, --hash-tag and --key-prefix match the application's settings.\n",
    );
  });

  it('shows the progress of a long scan, and takes it away', async () => {
    const { promise, resolve } = deferred<readonly LockInfo[]>();
    const { context, terminal, clock } = new Scene(TERMINAL(), [promise]);
    const listed = list(context, undefined);
    await clock.advance(400);
    expect(terminal.stderr.text).toBe('');
    await clock.advance(700);
    expect(terminal.stderr.text).toContain('\rScanning for 1.0 s, 0 locks found');
    resolve([]);
    await listed;
    expect(terminal.stderr.text).toContain('\r\u001b[KNo lock is held');
    expect(clock.pending).toBe(0);
  });

  it('writes no progress into the objects on a terminal', async () => {
    const { promise, resolve } = deferred<readonly LockInfo[]>();
    const { context, terminal, clock } = new Scene(TERMINAL(), [promise], true);
    const listed = list(context, undefined);
    await clock.advance(2_000);
    resolve([]);
    await listed;
    expect(terminal.stderr.text).toBe('');
  });
});

describe('inspect', () => {
  it('names the key of a free lock', async () => {
    const { context, terminal } = new Scene(PIPE(), [[]]);
    expect(await inspect(context, 'goods:300')).toBe(4);
    expect(terminal.stderr.text).toBe('Nobody holds goods:300 or waits for it. Its key is {lock_goods:300}.\n');
    expect(terminal.stdout.text).toBe('');
  });

  it('prints null as JSON', async () => {
    const { context, terminal } = new Scene(PIPE(), [[]], true);
    expect(await inspect(context, 'goods:300')).toBe(4);
    expect(terminal.stdout.text).toBe('null\n');
  });
});

describe('release', () => {
  const goods = (other: Partial<ReleaseArguments> = {}): ReleaseArguments => {
    return { resource: 'goods:300', ifToken: undefined, yes: false, ...other };
  };
  const held = heldView('goods:300', { fencingToken: 17, waiting: [waiterOf('api-2')] }, 4_200);

  it('shows the holder, asks, and releases the hold that was shown', async () => {
    const { context, terminal, released } = new Scene(TERMINAL('y'), [[held]]);
    expect(await release(context, goods())).toBe(0);
    expect(terminal.questions).toEqual([
      'goods:300 has been held by api-1 for 4.2 s (exclusive). 1 instance waits for it.\n' +
        'The work of the holder may still be running. Release it by force? [y/N] ',
    ]);
    expect(released).toEqual([17]);
    expect(terminal.stdout.text).toBe('goods:300 was released. api-1 held it.\n');
  });

  it.each(['', 'n', 'yess', undefined])('does not release after %j', async (reply) => {
    const { context, terminal, released } = new Scene(TERMINAL(reply), [[held]]);
    expect(await release(context, goods())).toBe(4);
    expect(released).toEqual([]);
    expect(terminal.stderr.text).toContain('goods:300 was not released: not confirmed.');
  });

  it('refuses to ask without a terminal, and sends nothing', async () => {
    const { context, released } = new Scene(PIPE(), [new Error('it was inspected')]);
    const refused = release(context, goods());
    await expect(refused).rejects.toMatchObject({ exitCode: 2 });
    await expect(refused).rejects.toThrow('Pass --yes to skip it.');
    expect(released).toEqual([]);
  });

  it('asks nothing with --yes, and releases the hold that it has found', async () => {
    const { context, terminal, released } = new Scene(PIPE(), [[held]]);
    expect(await release(context, goods({ yes: true }))).toBe(0);
    expect(released).toEqual([17]);
    expect(terminal.questions).toEqual([]);
  });

  it('releases all holds of a shared lock, which have no token', async () => {
    const { context, released } = new Scene(PIPE(), [[heldView('menu', { mode: 'shared' })]]);
    expect(await release(context, goods({ resource: 'menu', yes: true }))).toBe(0);
    expect(released).toEqual([undefined]);
  });

  it('leaves the exclusive hold that has followed a shared one', async () => {
    const shared = heldView('goods:300', { mode: 'shared' });
    const { context, terminal, released } = new Scene(TERMINAL('y'), [[shared], [held]]);
    expect(await release(context, goods())).toBe(4);
    expect(released).toEqual([]);
    expect(terminal.stderr.text).toContain('goods:300 was not released: the hold ended before the release.');
  });

  it.each<[string, LockInfo[], number | undefined, string]>([
    ['a free lock', [], undefined, 'nobody holds it. Its key is {lock_goods:300}.'],
    [
      'a lock that is only waited for',
      [awaitedView('goods:300')],
      undefined,
      'nobody holds it, and others wait for it.',
    ],
    ['the hold of another token', [held], 16, 'its token is 17, not 16.'],
    ['a shared lock by a token', [heldView('goods:300', { mode: 'shared' })], 16, 'its hold has no token, not 16.'],
  ])('does not release %s', async (_name, locks, ifToken, why) => {
    const { context, terminal, released } = new Scene(PIPE(), [locks]);
    expect(await release(context, goods({ yes: true, ifToken }))).toBe(4);
    expect(released).toEqual([]);
    expect(terminal.stderr.text).toBe(`goods:300 was not released: ${why}\n`);
  });

  it('says that the hold has ended before the release', async () => {
    const scene = new Scene(PIPE(), [[held]], true);
    scene.finds = false;
    expect(await release(scene.context, goods({ yes: true, ifToken: 17 }))).toBe(4);
    expect(JSON.parse(scene.terminal.stdout.text)).toMatchObject({
      resource: 'goods:300',
      released: false,
      reason: 'the hold ended before the release',
      lock: { identity: 'api-1', fencingToken: 17 },
    });
  });

  it('shows hostile names escaped in the question', async () => {
    const evil = heldView('goods:300', { holder: '\u001b[2Jevil', identity: undefined });
    const { context, terminal } = new Scene(TERMINAL('n'), [[evil]]);
    await release(context, goods());
    expect(terminal.questions[0]).toContain(String.raw`held by \u{1b}[2Jevil`);
  });
});

describe('watch', () => {
  /** Shows that many snapshots, and presses Ctrl-C. Returns the exit code. */
  async function watched({ context, terminal, clock }: Scene, snapshots: number): Promise<number | undefined> {
    const ended = outcome(watch(context, undefined));
    await clock.advance((snapshots - 1) * 1_000);
    expect(ended).toEqual({});
    terminal.interrupt();
    await clock.advance(0);
    return ended.value;
  }

  it('prints a line for each change in a pipe', async () => {
    const busy = heldView('a', { waiting: [waiterOf('api-2')] });
    const next = heldView('a', { ...holderOf('api-2'), fencingToken: 18 });
    const scene = new Scene(PIPE(), [[heldView('a')], [heldView('a')], [busy, heldView('b')], [next], []]);
    expect(await watched(scene, 6)).toBe(0);
    expect(scene.terminal.stdout.lines).toEqual([
      '2026-01-01T00:00:00.000Z a held by api-1 (exclusive)',
      '2026-01-01T00:00:02.000Z a held by api-1 (exclusive), 1 waiting',
      '2026-01-01T00:00:02.000Z b held by api-1 (exclusive)',
      '2026-01-01T00:00:03.000Z a held by api-2 (exclusive, token 18)',
      '2026-01-01T00:00:03.000Z b free',
      '2026-01-01T00:00:04.000Z a free',
    ]);
    expect(scene.terminal.listeners).toBe(0);
    expect(scene.clock.pending).toBe(0);
  });

  it('draws the locks once a second, and restores the terminal', async () => {
    const scene = new Scene(TERMINAL(), [[heldView('a')], [heldView('b', { waiting: [waiterOf('api-2')] })]]);
    expect(await watched(scene, 2)).toBe(0);
    const drawn = scene.terminal.stdout.text.split('\u001b[H').slice(1);
    expect(drawn).toHaveLength(2);
    expect(drawn[0]).toContain('1 lock, 0 waiting  redis://a  (Ctrl-C ends)');
    expect(drawn[1]).toContain('1 lock, 1 waiting');
    expect(drawn[1]).toMatch(/b +exclusive +api-1/);
    expect(scene.terminal.stdout.text.endsWith(RESTORED)).toBe(true);
    expect(scene.terminal.listeners).toBe(0);
  });

  it.each<[string, FakeTerminal]>([
    ['on the screen', TERMINAL()],
    ['on stderr, if stdout is a pipe', pipeWithTerminal()],
  ])('shows the progress of a long first listing %s', async (_where, terminal) => {
    const { promise, resolve } = deferred<readonly LockInfo[]>();
    const { context, clock } = new Scene(terminal, [promise, [heldView('a')]]);
    const ended = outcome(watch(context, undefined));
    await clock.advance(1_000);
    const shown = `${terminal.stdout.text}${terminal.stderr.text}`;
    expect(shown).toContain('Scanning for 1.0 s, 0 locks found');
    resolve([]);
    await clock.advance(1_000);
    expect(terminal.stdout.text).toContain('exclusive');
    terminal.interrupt();
    await clock.advance(0);
    expect(ended).toEqual({ value: 0 });
    expect(clock.pending).toBe(0);
  });

  it('waits after a long listing for as long as that took', async () => {
    const { promise, resolve } = deferred<readonly LockInfo[]>();
    const scene = new Scene(PIPE(), [promise, [heldView('a')]]);
    const ended = outcome(watch(scene.context, undefined));
    await scene.clock.advance(5_000);
    resolve([]);
    await scene.clock.advance(4_900);
    expect(scene.terminal.stdout.lines).toEqual([]);
    await scene.clock.advance(100);
    expect(scene.terminal.stdout.lines).toHaveLength(1);
    scene.terminal.interrupt();
    await scene.clock.advance(0);
    expect(ended).toEqual({ value: 0 });
  });

  it('says how many locks do not fit', async () => {
    const many = Array.from({ length: 100 }, (_, i) => heldView(`goods:${i + 100}`));
    const scene = new Scene(TERMINAL(), [many]);
    await watched(scene, 1);
    const [, drawn] = scene.terminal.stdout.text.split('\u001b[H');
    const lines = drawn.split('\r\n');
    expect(lines).toHaveLength(20);
    // Two lines at the top, the titles, 16 locks, and this one.
    expect(lines[18]).toContain('goods:115');
    expect(lines[19]).toContain('… and 84 more');
  });

  it('goes on through an outage, and shows the last locks meanwhile', async () => {
    const scene = new Scene(PIPE(), [[heldView('a')], new Error('no reply'), new Error('no reply'), [heldView('a')]]);
    expect(await watched(scene, 5)).toBe(0);
    expect(scene.terminal.stdout.lines.map((line) => line.slice(25))).toEqual([
      'a held by api-1 (exclusive)',
      'no reply',
      'redis://a can be used again',
    ]);
  });

  it('throws the error of the first listing, and restores the terminal', async () => {
    const { context, terminal } = new Scene(TERMINAL(), [new Error('no permission')]);
    await expect(watch(context, undefined)).rejects.toThrow('no permission');
    expect(terminal.stdout.text.endsWith(RESTORED)).toBe(true);
    expect(terminal.listeners).toBe(0);
  });

  it.each([
    ['SIGINT', 0],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)('ends at %s while a listing waits, with exit code %i', async (signal, code) => {
    const { context, terminal, clock } = new Scene(TERMINAL(), [new Promise(() => undefined)]);
    const ended = outcome(watch(context, undefined));
    await clock.advance(0);
    terminal.interrupt(signal);
    await clock.advance(0);
    expect(ended).toEqual({ value: code });
    expect(terminal.stdout.text.endsWith(RESTORED)).toBe(true);
  });

  it('prints a snapshot a line as JSON', async () => {
    const scene = new Scene(TERMINAL(), [[heldView('a')], new Error('no reply')], true);
    await watched(scene, 2);
    const [first, second] = scene.terminal.stdout.lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(first).toMatchObject({ at: '2026-01-01T00:00:00.000Z', error: null, locks: [{ resource: 'a' }] });
    expect(second).toMatchObject({ error: 'no reply', locks: [{ resource: 'a' }] });
  });
});
