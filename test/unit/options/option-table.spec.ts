import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import type {
  HttpOptions,
  LeadOptions,
  LockOptions,
  RedisLockModuleOptions,
  ReplicaOptions,
  WhileLeaderOptions,
  WrapOptions,
} from 'nestjs-redis-lock';
import type { CreateLocksOptions } from 'nestjs-redis-lock/standalone';
import type { LockedOptions } from '../../../lib/nest/locked.js';
import type { RedisLockModuleExtras } from '../../../lib/nest/module-definition.js';
import { HTTP, type NamesAt, OPTIONS, optionsAt, REPLICAS } from '../../../lib/options/option-table.js';
import type { AssertHeldOptions, ForceReleaseOptions, ListOptions } from '../../../lib/options/service.options.js';

/** True if an interface has the names of the table, and no others. */
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : { lacks: Exclude<B, A> }) : { lacks: Exclude<A, B> };

// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the compiler alone checks it
const allTrue = <T extends Record<keyof T, true>>(): T | undefined => undefined;

/** Does not compile if an interface and the table differ. */
allTrue<{
  readonly module: Same<NamesAt<'module'>, keyof RedisLockModuleOptions>;
  readonly extras: Same<NamesAt<'extras'>, keyof RedisLockModuleExtras>;
  readonly lock: Same<NamesAt<'lock'>, keyof LockOptions>;
  readonly 'createLocks()': Same<NamesAt<'createLocks()'>, keyof CreateLocksOptions>;
  readonly 'wrap()': Same<NamesAt<'wrap()'>, keyof WrapOptions>;
  readonly '@Locked': Same<NamesAt<'@Locked'>, keyof LockedOptions>;
  readonly '@WhileLeader': Same<NamesAt<'@WhileLeader'>, keyof WhileLeaderOptions>;
  readonly 'extend()': Same<NamesAt<'extend()'>, 'ttlMs'>;
  readonly 'lead()': Same<NamesAt<'lead()'>, keyof LeadOptions>;
  readonly 'list()': Same<NamesAt<'list()'>, keyof ListOptions>;
  readonly 'forceRelease()': Same<NamesAt<'forceRelease()'>, keyof ForceReleaseOptions>;
  readonly 'assertHeld()': Same<NamesAt<'assertHeld()'>, keyof AssertHeldOptions>;
  readonly http: Same<keyof typeof HTTP, keyof HttpOptions>;
  readonly replicas: Same<keyof typeof REPLICAS, keyof ReplicaOptions>;
}>();

const FILES = [
  'options/lock.options',
  'options/redis-lock.options',
  'nest/module-definition',
  'options/wrap.options',
  'standalone/create-locks',
];

/** Returns the option, the tag and the value of each `@default`, `@minimum` and `@maximum` in the interfaces. */
function documented(): [option: string, tag: string, value: string][] {
  const texts = FILES.map((file) => readFileSync(join(__dirname, `../../../lib/${file}.ts`), 'utf8'));
  const docs = texts.flatMap((text) => [...text.matchAll(/\/\*\*((?:(?!\*\/)[^])*)\*\/\s+readonly (\w+)\?:/g)]);
  return docs.flatMap(([, doc, option]) =>
    [...doc.matchAll(/@(default|minimum|maximum) (.+)/g)].map(([, tag, value]): [string, string, string] => [
      option,
      tag,
      value,
    ]),
  );
}

describe('the table of options', () => {
  const all: Readonly<Record<string, (typeof OPTIONS)[keyof typeof OPTIONS]>> = OPTIONS;
  const computed = ['identity', 'store', 'logger'];

  it.each(documented().filter(([option, tag]) => tag === 'default' && option in all && !computed.includes(option)))(
    'has the default of %s that its docstring has',
    (option, _, value) => {
      const shown = all[option].default;
      expect(typeof shown === 'string' ? `'${shown}'` : String(shown)).toBe(value);
    },
  );

  it.each(documented().filter(([, tag]) => tag !== 'default'))('allows %s up to its %s, %s', (option, tag, value) => {
    const beyond = Number(value) + (tag === 'minimum' ? -1 : 1);
    expect([all[option].fits(Number(value)), all[option].fits(beyond)]).toEqual([true, false]);
  });

  it('allows each default', () => {
    const given = Object.entries(all).filter(([, row]) => row.default !== undefined);
    for (const [name, row] of given) expect([name, row.fits(row.default)]).toEqual([name, true]);
  });

  it('allows a function as a label for wrap() and @Locked only', () => {
    const label = (): string => 'request 7';
    for (const place of ['wrap()', '@Locked'] as const) expect(optionsAt(place).label.fits(label)).toBe(true);
    expect(optionsAt('lock').label.fits(label)).toBe(false);
  });
});
