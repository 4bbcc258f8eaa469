import { ConsoleLogger, Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { RedisLockModule } from 'nestjs-redis-lock';
import { eventually } from '../support/async.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';

@Injectable()
class Unresolvable {
  constructor(readonly missing: Date) {}
}

describe('an application', () => {
  it('connects only if it starts, and disconnects when it closes', async () => {
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
    await eventually('the application has connected', connected);
    await started.close();
    await eventually('the connection is closed', async () => !(await connected()));
    await admin.quit();
  });
});
