// Runs the tests of the platforms again on Fastify, which `npm test` does not install.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { Controller, Get } from '@nestjs/common';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Locked } from 'nestjs-redis-lock';
import { runFiles } from '../suites/run-suite.js';
import { addPlatform, closeApps, PLATFORMS, startApp } from './support/app.js';

const { filesOf, root } = require('../suites/plan.cjs') as { filesOf: (suite: string) => string[]; root: string };

addPlatform('fastify', () => new FastifyAdapter());
PLATFORMS.splice(0, 1, 'fastify');

const usesPlatforms = (file: string): boolean => readFileSync(join(root, file), 'utf8').includes('PLATFORMS');
runFiles(filesOf('nest').filter(usesPlatforms));

describe('a handler on fastify that returns a stream of Node', () => {
  const file = new Readable({ read: () => undefined });

  afterEach(async () => {
    file.destroy();
    await closeApps();
  });

  @Controller()
  class FilesController {
    @Get('file')
    @Locked('file')
    async file(): Promise<Readable> {
      return file;
    }
  }

  it('holds its lock until the response is complete', async () => {
    const app = await startApp({ platform: 'fastify', controllers: [FilesController] });
    const response = fetch(`${app.url}/file`);
    file.push('the first part, ');
    const reader = ((await response).body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    expect(await app.isLocked('file')).toBe(true);
    file.push(null);
    await reader.read();
    await app.log.until('released file');
  });
});
