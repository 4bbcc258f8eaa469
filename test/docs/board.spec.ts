import { Test } from '@nestjs/testing';
import { describe, expect, it } from '@jest/globals';
import { page } from '../support/pages.js';
import { testRedisUrl } from '../support/shared-redis.js';

describe('the section on the board', () => {
  it('has an example that works', async () => {
    process.env['REDIS_URL'] = testRedisUrl();
    const { AppModule } = await import('./board.js');
    const module = await Test.createTestingModule({ imports: [AppModule] }).compile();
    const app = module.createNestApplication();
    let isAdmin = false;
    app.use((request: { user?: object }, _: unknown, next: () => void) => {
      request.user = { isAdmin };
      next();
    });
    await app.listen(0, '127.0.0.1');
    try {
      const statusOf = async () =>
        (await fetch(`${await app.getUrl()}/locks`, { headers: { connection: 'close' } })).status;
      expect(await statusOf()).toBe(403);
      isAdmin = true;
      expect(await statusOf()).toBe(200);
    } finally {
      await app.close();
    }
  });

  it('explains every option', () => {
    const [, board = ''] = page('docs/live-state.md').text.split('\n## The board\n');
    const rows = board.matchAll(/^- `(\w+)`: /gm);
    const options = ['route', 'guards', 'unprotected', 'allowRelease', 'hosts', 'name', 'imports'];
    expect([...rows].map(([, option]) => option)).toEqual(options);
  });
});
