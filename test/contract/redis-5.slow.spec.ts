// Runs the tests of `npm test` that use node-redis again, on its version 5.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runFiles } from '../suites/run-suite.js';
import { NODE_REDIS } from '../support/client-libraries.js';
import { REDIS_5 } from '../support/node-redis-versions.js';

const { files, isFull, root } = require('../suites/plan.cjs') as {
  files: string[];
  isFull: (file: string) => boolean;
  root: string;
};

NODE_REDIS.splice(0, 1, REDIS_5);
const usesNodeRedis = (file: string): boolean => readFileSync(join(root, file), 'utf8').includes('NODE_REDIS');
runFiles(files.filter((file) => !isFull(file) && usesNodeRedis(file)));
