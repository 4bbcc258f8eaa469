import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import type { EmbeddedScript } from '../../../lib/redis/redis-script.js';
import { WIRE_PREFIX, WIRE_VERSION } from '../../../lib/redis/wire.js';
import { scripts as tokenScripts } from '../../../lib/stores/token/scripts.js';
import { frozenReleases } from '../../support/release-process.js';
import { type CompatibleChange, sha1, wrongChanges } from '../../support/script-changes.js';

const ROOT = join(__dirname, '../../..');
const [last, ...older] = frozenReleases();

/** Returns the digests of the present scripts, named as in a release: `token/acquire`. */
function presentScripts(): Record<string, string> {
  const files = readdirSync(join(ROOT, 'lib'), { recursive: true, encoding: 'utf8' });
  const digests = files
    .filter((path) => basename(path) === 'scripts.ts')
    .flatMap((path) => {
      // oxlint-disable-next-line typescript/no-require-imports -- the list of files is known at run time only
      const { scripts } = require(join(ROOT, 'lib', path)) as { scripts: Record<string, EmbeddedScript> };
      return Object.entries(scripts).map(([name, { lua }]) => [`${basename(dirname(path))}/${name}`, sha1(lua)]);
    });
  return Object.fromEntries(digests) as Record<string, string>;
}

const HOW = `
The scripts of a release run beside those of the present code, so no change may be a surprise.
- If instances of the last release understand what the new script writes, and the other way round, say so in
  test/releases/compatible-changes.json: "<script>": { "sha1": "<of the new script>", "why": "<the reason>" }
- If not, raise WIRE_VERSION and what docs/upgrading.md lists.
Then run test/integration/token/releases.slow.spec.ts, in which both contend.`;

describe('the scripts of releases', () => {
  it.each([last, ...older])('are frozen as they were: $version, wire version $wire', ({ scripts, folder }) => {
    const frozen = Object.keys(scripts).map((name) => {
      return [name, sha1(readFileSync(join(folder, 'scripts', `${name}.lua`), 'utf8'))];
    });
    expect(Object.fromEntries(frozen)).toEqual(scripts);
    expect(existsSync(join(folder, 'library.mjs'))).toBe(true);
  });

  it('change with the wire version, or with a statement that they are compatible', () => {
    const file = join(ROOT, 'test/releases/compatible-changes.json');
    const statements = JSON.parse(readFileSync(file, 'utf8')) as Record<string, CompatibleChange>;
    const wrong = wrongChanges(last, { wire: WIRE_VERSION, scripts: presentScripts() }, statements);
    expect([...wrong, ...(wrong.length > 0 ? [HOW] : [])]).toEqual([]);
  });

  it('have the wire version of the code', () => {
    const { length } = WIRE_PREFIX;
    const check = `if string.sub(text, 1, ${length}) == '${WIRE_PREFIX}' then`;
    const checked = Object.entries(tokenScripts).filter(([, { lua }]) => lua.includes('otherWire('));
    expect(checked.map(([name]) => name)).toEqual(
      expect.arrayContaining(['acquire', 'acquireBatch', 'acquireMany', 'forceRelease', 'release', 'releaseBatch']),
    );
    for (const [, { lua }] of checked) expect(lua).toContain(check);
  });
});

describe('changes of scripts', () => {
  const before = { wire: 3, scripts: { a: '1', b: '2' } };
  const why = 'it writes what the last release writes';

  it('are wrong without a statement, also if a script is added or removed', () => {
    expect(wrongChanges(before, before, {})).toEqual([]);
    expect(wrongChanges(before, { wire: 3, scripts: { a: '9', c: '3' } }, {})).toEqual([
      'a has changed to 9 without a statement',
      'b has changed to removed without a statement',
      'c has changed to 3 without a statement',
    ]);
  });

  it('are right with the next wire version', () => {
    expect(wrongChanges(before, { wire: 4, scripts: { a: '9' } }, {})).toEqual([]);
    expect(wrongChanges(before, { wire: 2, scripts: { a: '9' } }, {})).toHaveLength(1);
  });

  it('are right with a statement of this text and a reason', () => {
    const present = { wire: 3, scripts: { a: '9', b: '2' } };
    expect(wrongChanges(before, present, { a: { sha1: '9', why } })).toEqual([]);
    expect(wrongChanges(before, present, { a: { sha1: '8', why } })).toEqual([
      'a has changed to 9 since its statement',
    ]);
    expect(wrongChanges(before, present, { a: { sha1: '9', why: ' ' } })).toHaveLength(1);
    expect(wrongChanges(before, present, { a: { sha1: '9', why }, b: { sha1: '2', why } })).toEqual([
      'b is as in the last release, and needs no statement',
    ]);
  });
});
