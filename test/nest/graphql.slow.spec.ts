import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { type ArgumentsHost, Catch, type ExceptionFilter, Injectable } from '@nestjs/common';
import {
  Args,
  Field,
  GraphQLModule,
  Int,
  Mutation,
  ObjectType,
  Parent,
  Query,
  ResolveField,
  Resolver,
} from '@nestjs/graphql';
import { MercuriusDriver, type MercuriusDriverConfig } from '@nestjs/mercurius';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { afterEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, type Lock, Locked, type LockError } from 'nestjs-redis-lock';
import { addPlatform, type AppSetUp, closeApps, type Platform, startApp, type TestApp } from './support/app.js';
import { Foreign } from './support/wrappers.js';

addPlatform('fastify', () => new FastifyAdapter());

@ObjectType()
class Goods {
  @Field()
  id!: string;

  @Field(() => Int, { nullable: true })
  price?: number;
}

@Injectable()
class GoodsService {
  @Locked('goods:<id>', { waitMs: 0 })
  async price(id: string): Promise<number> {
    return Number(id) * 100;
  }
}

@Resolver(() => Goods)
class GoodsResolver {
  readonly tokens: number[] = [];

  constructor(private readonly goods: GoodsService) {}

  @Query(() => Goods)
  @Locked('goods:<id>', { waitMs: 0 })
  async find(@Args('id') id: string): Promise<Goods> {
    return { id };
  }

  @Query(() => [Goods])
  list(): Goods[] {
    return [{ id: '1' }, { id: '2' }];
  }

  @Locked('goods:<id>', { waitMs: 0 })
  @Mutation(() => Goods)
  async buy(@Args('id', { nullable: true }) id: string, @CurrentLock() lock: Lock): Promise<Goods> {
    this.tokens.push(lock.fencingToken);
    lock.assertHeld();
    return { id };
  }

  @Mutation(() => Goods)
  @Locked((id: string) => `goods|${id}`)
  async wrong(@Args('id') id: string): Promise<Goods> {
    return { id };
  }

  @ResolveField(() => Int, { nullable: true })
  @Locked('goods:<goods.id>', { waitMs: 0 })
  async price(@Parent() goods: Goods): Promise<number> {
    return Number(goods.id) * 100;
  }

  @ResolveField(() => Int, { nullable: true })
  @Foreign()
  @Locked('goods:<goods.id>', { waitMs: 0 })
  async traced(@Parent() goods: Goods): Promise<number> {
    return Number(goods.id) * 100;
  }

  @ResolveField(() => Int, { nullable: true })
  async offer(@Parent() goods: Goods): Promise<number> {
    return this.goods.price(goods.id);
  }
}

@Catch()
class CatchAll implements ExceptionFilter {
  catch(error: LockError, host: ArgumentsHost): Error {
    return Object.assign(new Error('caught'), { extensions: { type: host.getType<string>(), code: error.code } });
  }
}

type Server = 'apollo' | 'mercurius';
const SERVERS: [Server, Platform][] = [
  ['apollo', 'express'],
  ['apollo', 'fastify'],
  ['mercurius', 'fastify'],
];

function graphql(server: Server, more: object = {}) {
  const options = { autoSchemaFile: true, graphiql: false, includeStacktraceInErrorResponses: false, ...more };
  if (server === 'apollo') return GraphQLModule.forRoot<ApolloDriverConfig>({ driver: ApolloDriver, ...options });
  // Its cache is an ESM-only package, which Jest does not import.
  return GraphQLModule.forRoot<MercuriusDriverConfig>({ driver: MercuriusDriver, cache: false, ...options });
}

const start = (server: Server, platform: Platform, options: object = {}, setUp: AppSetUp = {}): Promise<TestApp> =>
  startApp({
    platform,
    imports: [graphql(server, options)],
    ...setUp,
    locks: { checks: 'off', ...setUp.locks },
    providers: [GoodsResolver, GoodsService],
  });

async function ask(app: TestApp, query: string) {
  const headers = { 'content-type': 'application/json' };
  const response = await app.call('/graphql', { method: 'POST', headers, body: JSON.stringify({ query }) });
  return { ...response, errors: response.body.errors as { message: string; extensions: object; path: string[] }[] };
}

afterEach(closeApps);

const BUSY = {
  message: 'goods:1 is locked by others.',
  extensions: expect.objectContaining({ code: 'LOCK_TIMEOUT', status: 423, retryAfterMs: 1000 }),
};

describe.each(SERVERS)('GraphQL by %s on %s', (server, platform) => {
  it('runs queries, mutations and field resolvers under their locks', async () => {
    const app = await start(server, platform);
    const { body } = await ask(app, 'mutation { buy(id: "1") { id price } }');
    expect(body).toEqual({ data: { buy: { id: '1', price: 100 } } });
    expect((await ask(app, '{ list { offer } }')).body).toEqual({ data: { list: [{ offer: 100 }, { offer: 200 }] } });
    expect((await ask(app, '{ find(id: "2") { id } }')).body).toEqual({ data: { find: { id: '2' } } });
    expect(app.nest.get(GoodsResolver).tokens).toHaveLength(1);
    expect(app.log.count('granted goods:2')).toBe(2);
    expect(app.log.count(/^released/)).toBe(5);
  });

  it('runs the fields of one request like calls of several', async () => {
    const app = await start(server, platform);
    const { body, errors } = await ask(app, '{ a: find(id: "1") { id } b: find(id: "1") { id } }');
    expect(body.data).toBeNull();
    expect(errors).toEqual([expect.objectContaining(BUSY)]);
    await app.log.until('released goods:1');
    expect([app.log.count('granted goods:1'), app.log.count('refused goods:1')]).toEqual([1, 1]);
  });

  it.each(['mutation { buy(id: "1") { id } }', '{ find(id: "1") { id } }'])(
    'sends the code and the status of a busy lock: %s',
    async (query) => {
      const app = await start(server, platform);
      await app.locks.using('goods:1', async () => {
        expect((await ask(app, query)).errors).toEqual([expect.objectContaining(BUSY)]);
      });
      expect(app.logged).toEqual([]);
    },
  );

  it.each([[['filters']], [['interceptors', 'filters']]])(
    'sends the code of a field resolver beside the other fields (fieldResolverEnhancers: %j)',
    async (fieldResolverEnhancers) => {
      const app = await start(server, platform, { fieldResolverEnhancers });
      await app.locks.using('goods:1', async () => {
        const { status, body, errors } = await ask(app, '{ list { id price } }');
        const [first, second] = [
          { id: '1', price: null },
          { id: '2', price: 200 },
        ];
        expect([status, body.data]).toEqual([200, { list: [first, second] }]);
        expect(errors).toEqual([expect.objectContaining(BUSY)]);
        expect(errors[0].path.join('.')).toBe('list.0.price');
        expect((await ask(app, '{ list { traced } }')).errors).toEqual([expect.objectContaining(BUSY)]);
      });
    },
  );

  it('sends the code of a field resolver without filters', async () => {
    const app = await start(server, platform);
    await app.locks.using('goods:1', async () => {
      for (const field of ['price', 'traced', 'offer']) {
        const { errors } = await ask(app, `{ list { ${field} } }`);
        expect(errors).toMatchObject([{ extensions: { code: 'LOCK_TIMEOUT' } }]);
      }
    });
  });

  it('sends no details of other errors, and logs them', async () => {
    const app = await start(server, platform);
    const { errors } = await ask(app, 'mutation { wrong(id: "1") { id } }');
    expect(errors).toMatchObject([{ message: 'Internal Server Error', extensions: { code: 'LOCK_KEY', status: 500 } }]);
    expect(app.logged.join('\n')).toContain('goods|1');
  });

  it('names the placeholder of an argument that cannot form a key', async () => {
    const app = await start(server, platform);
    const { errors } = await ask(app, 'mutation { buy { id } }');
    const message = "The value of 'id' is missing or invalid.";
    expect(errors).toMatchObject([{ message, extensions: { code: 'LOCK_KEY', status: 400 } }]);
    expect(app.logged).toEqual([]);
  });

  it("leaves the errors to the user's filter", async () => {
    const app = await start(server, platform, {}, { prepare: (nest) => nest.useGlobalFilters(new CatchAll()) });
    const { errors } = await app.locks.using('goods:1', () => ask(app, 'mutation { buy(id: "1") { id } }'));
    expect(errors).toMatchObject([{ message: 'caught', extensions: { type: 'graphql', code: 'LOCK_TIMEOUT' } }]);
  });

  it('sends no details without Redis', async () => {
    const locks = { redis: 'redis://127.0.0.1:1', unavailableAfterMs: 100, waitMs: 0 };
    const app = await start(server, platform, {}, { locks });
    for (const query of ['{ find(id: "1") { id } }', 'mutation { buy(id: "1") { id } }']) {
      const { text, errors } = await ask(app, query);
      expect(errors[0]).toMatchObject({
        message: 'Service Unavailable',
        extensions: { code: 'LOCK_UNAVAILABLE', status: 503, retryAfterMs: 1000 },
      });
      expect(text).not.toContain('127.0.0.1');
    }
  });
});

describe('the HTTP status', () => {
  const askBusy = (app: TestApp) => app.locks.using('goods:1', () => ask(app, '{ find(id: "1") { id } }'));

  it('of Apollo is that of the error if the driver lets it through', async () => {
    const app = await start('apollo', 'express', { preserveHttpStatusForExecutionErrors: false });
    const { status, headers } = await askBusy(app);
    expect([status, headers.get('retry-after')]).toEqual([423, '1']);
  });

  it('of Mercurius is that of the error if there is no data', async () => {
    expect((await askBusy(await start('mercurius', 'fastify'))).status).toBe(423);
  });

  it('follows http.status', async () => {
    const app = await start('mercurius', 'fastify', {}, { locks: { http: { status: { LOCK_TIMEOUT: 409 } } } });
    const { status, errors } = await askBusy(app);
    expect([status, errors[0].extensions]).toEqual([409, expect.objectContaining({ status: 409 })]);
  });
});
