import { ConsoleLogger, Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { RedisLockModule } from 'nestjs-redis-lock';
import { eventually } from '../support/redis-locks.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';

@Injectable()
class Unresolvable {
  constructor(readonly nobody: Date) {}
}

describe('an application that cannot start', () => {
  it('leaves no connection behind, and one that starts has one', async () => {
    const { hostname: host, port } = new URL(testRedisUrl());
    const connectionName = uniquePrefix();
    const locks = RedisLockModule.forRoot({ redis: { host, port: Number(port), connectionName } });
    const admin = new Redis(testRedisUrl());
    const connected = async () => String(await admin.client('LIST')).includes(connectionName);

    const quiet = new ConsoleLogger('', { logLevels: [] });
    const failing = Test.createTestingModule({ imports: [locks], providers: [Unresolvable] }).setLogger(quiet);
    await expect(failing.compile()).rejects.toThrow("can't resolve dependencies");
    expect(await connected()).toBe(false);

    const started = await (await Test.createTestingModule({ imports: [locks] }).compile()).init();
    await eventually('it has connected without having been asked for a lock', connected);
    await started.close();
    await eventually('the connection is closed', async () => !(await connected()));
    await admin.quit();
  });
});
