// Runs the tests of the platforms again on Fastify, which `npm test` does not install.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { runFiles } from '../suites/run-suite.js';
import { addPlatform, PLATFORMS } from './support/app.js';

const { filesOf, root } = require('../suites/plan.cjs') as { filesOf: (suite: string) => string[]; root: string };

addPlatform('fastify', () => new FastifyAdapter());
PLATFORMS.splice(0, 1, 'fastify');

const usesPlatforms = (file: string): boolean => readFileSync(join(root, file), 'utf8').includes('PLATFORMS');
runFiles(filesOf('nest').filter(usesPlatforms));
