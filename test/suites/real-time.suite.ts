import { runSuite } from './run-suite.ts';

runSuite('real-time');
