import { describe } from '@jest/globals';
import { token } from 'nestjs-redis-lock';
import { registerStoreContract } from 'nestjs-redis-lock/testing';
import { NODE_REDIS } from '../support/client-libraries.js';
import { onRedis, sideBySide } from './under-test.js';

// Version 5 and other stores run with npm run test:full.
const [library] = NODE_REDIS;

describe(`token store by ${library.name}`, () => {
  registerStoreContract({ createStore: () => onRedis(token(), { library }), ...sideBySide() });
});
