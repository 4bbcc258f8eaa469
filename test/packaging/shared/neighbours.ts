// What every consumer checks beside other packages. A package that the consumer has not installed is left out.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, Module, type NestApplicationOptions } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Locked, memory, RedisLockModule, WhileLeader } from 'nestjs-redis-lock';

/** Returns a package that the consumer may have. Packages that are ES modules need a Node that requires these. */
async function optional(name: string): Promise<Record<string, unknown> | undefined> {
  const { dependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as { dependencies?: object };
  const { require_module: requires } = process.features as { require_module?: boolean };
  if (dependencies === undefined || !(name in dependencies) || requires !== true) return undefined;
  return (await import(name)) as Record<string, unknown>;
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
  isFree(id: number): boolean {
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
