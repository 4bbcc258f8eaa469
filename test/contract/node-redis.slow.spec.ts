import { describe } from '@jest/globals';
import { token } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { NODE_REDIS_VERSIONS } from '../support/node-redis-versions.js';
import { onMasters, StoppedServersOfBlock } from './on-stopped-servers.js';

const ON_ONE_SERVER = {
  'token store': () => token(),
  'redisson store': () => redisson(),
  'timestamp store': () => timestamp(),
  'timestamp store without scripts': () => timestamp({ scripts: false }),
};

describe.each(NODE_REDIS_VERSIONS)('by $name', (library) => {
  const server = new StoppedServersOfBlock(1);
  const masters = new StoppedServersOfBlock(3);

  for (const [name, factory] of Object.entries(ON_ONE_SERVER)) server.describe(name, factory, library);
  masters.describe('quorum store', onMasters, library);
});
