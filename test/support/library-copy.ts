import { jest } from '@jest/globals';
import * as common from '@nestjs/common';
import * as constants from '@nestjs/common/constants.js';
import * as core from '@nestjs/core';
import * as ioredis from 'ioredis';
import * as rxjs from 'rxjs';

/** One evaluation of the sources. */
export type LibraryCopy = typeof import('nestjs-redis-lock') & {
  readonly testing: typeof import('nestjs-redis-lock/testing');
};

/**
 * Evaluates the sources again, as a second install of the package would be, with the test's Nest.
 *
 * @param version the version that the copy has. Default: that of the sources.
 */
export async function loadLibraryCopy(version?: string): Promise<LibraryCopy> {
  const modules: Record<string, unknown> = {
    '@nestjs/common': common,
    '@nestjs/common/constants.js': constants,
    '@nestjs/core': core,
    ioredis,
    rxjs,
  };
  let copy!: LibraryCopy;
  await jest.isolateModulesAsync(async () => {
    for (const [name, module] of Object.entries(modules)) jest.doMock(name, () => module);
    if (version !== undefined) jest.doMock('../../lib/core/version.js', () => ({ VERSION: version }));
    copy = { ...(await import('nestjs-redis-lock')), testing: await import('nestjs-redis-lock/testing') };
  });
  for (const name of [...Object.keys(modules), '../../lib/core/version.js']) jest.dontMock(name);
  return copy;
}
