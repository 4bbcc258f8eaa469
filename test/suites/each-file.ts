/* oxlint-disable jest/no-standalone-expect -- this runs before each file, and in its hooks */
import { expect, jest } from '@jest/globals';

// Several times of what any test needs, because the machine may be busy. A slow one starts applications, servers and
// package managers.
const isSlow = expect.getState().testPath?.endsWith('.slow.spec.ts') === true;
jest.setTimeout(isSlow ? 900_000 : 30_000);
