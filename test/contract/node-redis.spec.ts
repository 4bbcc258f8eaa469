import { describe } from '@jest/globals';
import { token } from 'nestjs-redis-lock';
import { registerStoreContract } from 'nestjs-redis-lock/testing';
import { NODE_REDIS } from '../support/client-libraries.js';
import { onRedis, sideBySide } from './under-test.js';

describe.each(NODE_REDIS)('token store by $name', (library) => {
  registerStoreContract({ createStore: () => onRedis(token(), { library }), ...sideBySide() });
});
