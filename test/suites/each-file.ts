/* oxlint-disable jest/no-standalone-expect -- this runs before each file, and in its hooks */
import { beforeEach, expect, jest } from '@jest/globals';

const { isQuick } = require('./plan.cjs') as { isQuick: (file: string) => boolean };
const { testPath = '' } = expect.getState();

// It ends a test that hangs, after `eventually` has ended. A slow one starts applications, servers and package
// managers.
jest.setTimeout(testPath.endsWith('.slow.spec.ts') ? 900_000 : 150_000);

// A test that never calls `expect` proves nothing. Those of the other part may await a state, and fail without it.
if (isQuick(testPath)) beforeEach(() => expect.hasAssertions());
