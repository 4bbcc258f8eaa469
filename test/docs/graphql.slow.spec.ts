import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { GraphQLModule } from '@nestjs/graphql';
import { Test } from '@nestjs/testing';
import { expect, it } from '@jest/globals';
import { LockService, RedisLockModule } from 'nestjs-redis-lock';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { load } from './blocks.js';

it('the recipe for GraphQL runs mutations under their locks', async () => {
  const { CartResolver } = load('docs/recipes/requests.md', 'CartResolver');
  const module = await Test.createTestingModule({
    imports: [
      RedisLockModule.forRoot({ redis: testRedisUrl(), prefix: uniquePrefix() }),
      GraphQLModule.forRoot<ApolloDriverConfig>({ driver: ApolloDriver, autoSchemaFile: true }),
    ],
    providers: [CartResolver],
  }).compile();
  const app = module.createNestApplication();
  await app.listen(0, '127.0.0.1');
  const add = async (item: string) => {
    const response = await fetch(`${await app.getUrl()}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', connection: 'close' },
      body: JSON.stringify({ query: `mutation { add(id: 1, item: "${item}") { items } }` }),
    });
    return (await response.json()) as {
      data?: { add: { items: string[] } };
      errors?: { extensions: { code: string } }[];
    };
  };
  /** Repeats a request that has waited too long, as it may on a busy machine. */
  const added = async (item: string): Promise<void> => {
    const { errors } = await add(item);
    if (errors?.[0].extensions.code === 'LOCK_TIMEOUT') return added(item);
    expect(errors).toBeUndefined();
  };
  try {
    await Promise.all(['a book', 'a pen', 'a lamp'].map(added));
    expect((await add('a desk')).data?.add.items).toHaveLength(4);
    await app.get(LockService).using('cart:1', async () => {
      expect((await add('a chair')).errors).toMatchObject([{ extensions: { code: 'LOCK_TIMEOUT', status: 423 } }]);
    });
  } finally {
    await app.close();
  }
});
