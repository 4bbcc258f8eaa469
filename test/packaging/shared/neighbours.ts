// What every consumer checks beside other packages. A package that the consumer has not installed is left out.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type ArgumentsHost,
  Catch,
  Controller,
  type ExceptionFilter,
  Get,
  HttpException,
  Injectable,
  Module,
  type NestApplicationOptions,
  Param,
  type Type,
} from '@nestjs/common';
import { APP_FILTER, BaseExceptionFilter, HttpAdapterHost, NestFactory } from '@nestjs/core';
import { Locked, LockService, LockUnavailableError, memory, RedisLockModule, WhileLeader } from 'nestjs-redis-lock';
import { StaleFenceError } from 'nestjs-redis-lock/fence';

/** Returns a module of a package that the consumer may have. ES modules need a Node that requires these. */
async function optional(name: string, path = name): Promise<Record<string, unknown> | undefined> {
  const { dependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as { dependencies?: object };
  const { require_module: requires } = process.features as { require_module?: boolean };
  if (dependencies === undefined || !(name in dependencies) || requires !== true) return undefined;
  return (await import(path)) as Record<string, unknown>;
}

@Injectable()
class Reports {
  terms = 0;

  @WhileLeader('report')
  async run(signal: AbortSignal): Promise<void> {
    this.terms += 1;
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
  }
}

@Injectable()
class Synchronous {
  @Locked('goods:<id>')
  async isFree(id: number): Promise<boolean> {
    return id > 0;
  }
}

type Decorate = (instance: unknown) => unknown;

function proxyOf(instance: unknown, handler: ProxyHandler<object>): unknown {
  return typeof instance === 'object' && instance !== null ? new Proxy(instance, handler) : instance;
}

/** The work of a start runs, whatever the option `instrument` puts around providers. Nest 10 does not have it. */
export async function checkInstrument(): Promise<void> {
  const bind = (target: object, key: string | symbol): unknown => {
    const value: unknown = Reflect.get(target, key);
    return typeof value === 'function' && key !== 'constructor' ? (value.bind(target) as unknown) : value;
  };
  const kinds: Record<string, Decorate> = {
    empty: (instance) => proxyOf(instance, {}),
    binding: (instance) => proxyOf(instance, { get: bind }),
  };
  const observe = await optional('@nestjs/observe');
  if (observe !== undefined) {
    type Observe = (options?: object) => { readonly ObserveInstrument: { readonly instanceDecorator: Decorate } };
    kinds['@nestjs/observe'] = (observe.createObserveModule as Observe)().ObserveInstrument.instanceDecorator;
  }
  for (const [kind, instanceDecorator] of Object.entries(kinds)) {
    const options = { logger: ['error', 'warn'], abortOnError: false, instrument: { instanceDecorator } };
    const start = async (provider: unknown) => {
      @Module({ imports: [RedisLockModule.forRoot({ store: memory() })], providers: [provider as never] })
      class App {}
      return (await NestFactory.create(App, options as NestApplicationOptions)).init();
    };
    const app = await start(Reports);
    for (let tries = 0; app.get(Reports).terms === 0 && tries < 500; tries += 1) await sleep(10);
    assert.equal(app.get(Reports).terms, 1, `with a proxy (${kind}), no leader has started`);
    await app.close();
    await assert.rejects(start(Synchronous), { code: 'LOCK_CONFIG' }, `with a proxy (${kind}), nothing is checked`);
  }
}

/** As the documentation of Nest has it. */
@Catch()
class CatchEverything implements ExceptionFilter {
  constructor(private readonly adapterHost: HttpAdapterHost) {}

  catch(exception: unknown, host: ArgumentsHost): void {
    const status = exception instanceof HttpException ? exception.getStatus() : 500;
    this.adapterHost.httpAdapter.reply(host.switchToHttp().getResponse(), { statusCode: status }, status);
  }
}

@Catch()
class ExtendsBase extends BaseExceptionFilter {}

@Controller()
class FailingController {
  static readonly failures: Record<string, Error> = {
    503: new LockUnavailableError('no reply'),
    409: new StaleFenceError('an old token'),
  };

  constructor(private readonly locks: LockService) {}

  @Get('locked/:id')
  @Locked('goods:<id>', { waitMs: 0 })
  async locked(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('plain/:id')
  plain(@Param('id') id: string): Promise<string> {
    return this.locks.using(`goods:${id}`, { waitMs: 0 }, () => id);
  }

  @Get('fail/:status')
  fail(@Param('status') status: string): never {
    throw FailingController.failures[status];
  }
}

/** Filters that know the exceptions of Nest only reply to lock errors as to these, and log none of them. */
export async function checkFilters(): Promise<void> {
  const filters: Type[] = [CatchEverything, ExtendsBase];
  const sentry = await optional('@sentry/nestjs', '@sentry/nestjs/setup');
  if (sentry !== undefined) filters.push(sentry.SentryGlobalFilter as Type);
  const fastify = await optional('@nestjs/platform-fastify');
  const Fastify = fastify?.FastifyAdapter as (new () => never) | undefined;
  for (const filter of filters) {
    for (const Adapter of [undefined, ...(Fastify === undefined ? [] : [Fastify])]) {
      await checkFilter(filter, Adapter);
    }
  }
}

async function checkFilter(filter: Type, Adapter: (new () => never) | undefined): Promise<void> {
  @Module({
    imports: [RedisLockModule.forRoot({ store: memory() })],
    controllers: [FailingController],
    providers: [{ provide: APP_FILTER, useClass: filter }],
  })
  class App {}
  const logged: unknown[] = [];
  const keep = (message: unknown): void => void logged.push(message);
  // The next application of Nest 10.1 calls `setLogLevels` of this logger.
  const logger = { log: () => undefined, warn: () => undefined, error: keep, setLogLevels: () => undefined };
  const options = { logger, abortOnError: false };
  const app = await (Adapter ? NestFactory.create(App, new Adapter(), options) : NestFactory.create(App, options));
  try {
    await app.listen(0, '127.0.0.1');
    const url = await app.getUrl();
    await app.get(LockService).using('goods:1', async () => {
      for (const [route, status] of Object.entries({
        'locked/1': 423,
        'plain/1': 423,
        'fail/503': 503,
        'fail/409': 409,
      })) {
        const response = await fetch(`${url}/${route}`, { headers: { connection: 'close' } });
        const seen = [response.status, response.headers.get('retry-after')];
        assert.deepEqual(seen, [status, '1'], `${filter.name}, ${Adapter?.name ?? 'Express'}, ${route}`);
      }
    });
    assert.deepEqual(logged, [], filter.name);
  } finally {
    await app.close();
  }
}
