import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, jest } from '@jest/globals';
import {
  joinApplication,
  otherServices,
  otherVersion,
  shared,
  sharedClass,
  THIS_COPY,
} from '../../../../lib/core/context/copies.js';
import { VERSION } from '../../../../lib/core/version.js';

/** Evaluates the module again, as a second copy of the package would. */
async function load(version?: string): Promise<typeof import('../../../../lib/core/context/copies.js')> {
  let copy!: typeof import('../../../../lib/core/context/copies.js');
  await jest.isolateModulesAsync(async () => {
    if (version !== undefined) jest.doMock('../../../../lib/core/version.js', () => ({ VERSION: version }));
    copy = await import('../../../../lib/core/context/copies.js');
  });
  jest.dontMock('../../../../lib/core/version.js');
  return copy;
}

describe('copies of the package', () => {
  it('have the version of the package', () => {
    const text = readFileSync(join(__dirname, '../../../../package.json'), 'utf8');
    expect(VERSION).toBe((JSON.parse(text) as { version: string }).version);
    expect(THIS_COPY.version).toBe(VERSION);
  });

  it('know the folder that they were loaded from', () => {
    expect(THIS_COPY.path).toMatch(/^\/.*\/lib\/core\/context$/);
  });

  it('share values with copies of their version only', async () => {
    const [same, other] = [await load(), await load('9.9.9')];
    const own = shared('a value', () => ({}));
    expect(same.shared('a value', () => ({}))).toBe(own);
    expect(other.shared('a value', () => ({}))).not.toBe(own);
    expect(other.shared('a value', () => ({}))).toBe(other.shared('a value', () => ({})));
  });

  it('recognize instances of a shared class of their version only', async () => {
    const [same, other] = [await load(), await load('9.9.9')];
    const classOf = ({ sharedClass: mark }: { sharedClass: typeof sharedClass }) => {
      @mark('Thing')
      class Thing {}
      return Thing;
    };
    const [Own, Same, Other] = [classOf({ sharedClass }), classOf(same), classOf(other)];
    class Special extends Own {}
    expect([new Own(), new Same(), new Special()].map((each) => each instanceof Own)).toEqual([true, true, true]);
    expect([new Other(), {}, null, 'text'].map((each) => (each as object) instanceof Own)).toEqual(
      Array.from({ length: 4 }, () => false),
    );
    expect([new Same(), new Own()].map((each) => each instanceof Special)).toEqual([false, false]);
  });

  it("find the others' services, and not their own", async () => {
    const copy = await load();
    const Service = function Service(): void {};
    copy.offerService(Service);
    expect(otherServices()).toEqual([[Service, copy.THIS_COPY]]);
    expect(copy.otherServices().map(([service]) => service)).not.toContain(Service);
  });

  it('join an application by different names, or one copy again by the same name', async () => {
    const [same, application] = [await load(), {}];
    joinApplication(application, 'default');
    joinApplication(application, 'default');
    same.joinApplication(application, 'other');
    same.joinApplication({}, 'default');
    expect(() => same.joinApplication(application, 'default')).toThrow(/^The application imports the RedisLockModule/);
  });

  it('of two versions do not join one application', async () => {
    const [newer, application] = [await load('9.9.9'), {}];
    newer.joinApplication(application, 'other');
    expect(() => joinApplication(application, 'default')).toThrow(otherVersion(newer.THIS_COPY).message);
    expect(otherVersion({ version: '9.9.9', path: '/other' }).message).toBe(
      'Two versions of nestjs-redis-lock cannot work together in one application: 9.9.9 in /other, and ' +
        `${VERSION} in ${THIS_COPY.path}. Use one version for the module, the decorators and LockService. ` +
        '`npm ls nestjs-redis-lock` shows what installs a second copy, and `npm dedupe` often removes it.',
    );
  });
});
