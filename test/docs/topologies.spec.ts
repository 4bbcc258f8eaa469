import { Test } from '@nestjs/testing';
import { expect, it } from '@jest/globals';
import { LockService } from 'nestjs-redis-lock';
import { inACluster } from './topologies/cluster.js';
import { behindSentinels } from './topologies/sentinel.js';

it.each([behindSentinels, inACluster])(
  'the page on topologies has a module that starts without its servers',
  async (locks) => {
    const module = await Test.createTestingModule({ imports: [locks] }).compile();
    expect(module.get(LockService)).toBeInstanceOf(LockService);
    await module.close();
  },
);
