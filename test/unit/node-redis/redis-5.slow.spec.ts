// Runs the unit tests of node-redis again, on its version 5.
import { runFiles } from '../../suites/run-suite.js';
import { NODE_REDIS } from '../../support/client-libraries.js';
import { REDIS_5 } from '../../support/node-redis-versions.js';

NODE_REDIS.splice(0, 1, REDIS_5);
runFiles(['test/unit/node-redis/node-redis-cluster.spec.ts']);
