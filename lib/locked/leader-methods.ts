import type { ModulesContainer } from '@nestjs/core';
import { LockConfigError, messageOf } from '../core/errors.js';
import { isSameService, type LockService } from '../lock.service.js';
import { boundService } from './check-locked-methods.js';
import { type Method, MethodRegistry } from './locked-method.js';
import { chainOf, instancesOf, type Provider, prototypesIn } from './providers.js';

/** A method that is decorated with `@WhileLeader`. */
interface LeaderMethod {
  /** `ReportService.run` */
  readonly name: string;
  readonly resource: string;
  readonly ttlMs: number | undefined;
  /** The property of the instances that holds the service. */
  readonly service: symbol;
}

/** A method of a provider's instances. */
interface FoundLeader {
  readonly method: LeaderMethod;
  readonly key: string | symbol;
  readonly provider: Provider;
  /** The lock service of the instances. Undefined if Nest did not make them from their class. */
  readonly service: unknown;
}

/** The `@WhileLeader` methods. */
export const leaderMethods = new MethodRegistry<LeaderMethod>('leader-methods');

/**
 * Checks the `@WhileLeader` methods that a service leads for, and those without a service, before the application
 * starts.
 *
 * @throws LockConfigError that names all methods that cannot run.
 */
export function checkLeaderMethods(service: LockService, modules: ModulesContainer): void {
  const errors = new Set<string>();
  for (const found of leaderMethodsIn(modules)) {
    if (found.service !== undefined && !isSameService(service, found.service)) continue;
    const problem = found.service === undefined ? WITHOUT_SERVICE : findProblem(found, service);
    if (problem !== undefined) errors.add(`@WhileLeader of ${found.method.name}: ${problem}`);
  }
  if (errors.size > 0) throw new LockConfigError([...errors].join('\n'));
}

const WITHOUT_SERVICE =
  'its instance has no lock service, because a factory or a value provides it. Let Nest make the class, or call ' +
  'bindLocks(instance, locks) in the factory.';

function findProblem({ provider, method }: FoundLeader, service: LockService): string | undefined {
  if (provider.isTransient || !provider.isDependencyTreeStatic())
    return 'its class is request-scoped or transient; expected a singleton.';
  try {
    service.checkLead(method.resource, { ttlMs: method.ttlMs });
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/** Starts a candidate for each `@WhileLeader` method of each instance that a service leads for. */
export function startLeaders(service: LockService, modules: ModulesContainer): void {
  for (const found of leaderMethodsIn(modules)) {
    if (!isSameService(service, found.service)) continue;
    const { method, key, provider } = found;
    for (const instance of instancesOf(provider)) {
      if (!begins(instance, key, service)) continue;
      const { resource, ttlMs, name } = method;
      // Read at each term, because a test may have replaced the method.
      const onElected: Parameters<LockService['campaign']>[1]['onElected'] = (lock) =>
        Reflect.apply((instance as Record<string | symbol, Method>)[key], instance, [lock.signal, lock]);
      service.campaign(resource, { ttlMs, onElected }, name);
    }
  }
}

const LEADS = Symbol.for('nestjs-redis-lock:leads');

/**
 * Marks a method of an instance as one that a service leads for. Returns false if it was marked before, because two
 * providers may have one instance, or two proxies of it.
 */
function begins(instance: object, key: string | symbol, { engine }: LockService): boolean {
  // On the instance, because its proxies are other objects. By name, because proxies may wrap the functions.
  const marks = (instance as { [LEADS]?: Record<string | symbol, string> })[LEADS] ?? {};
  if (marks[key] === engine.instanceId) return false;
  marks[key] = engine.instanceId;
  // Does nothing to a frozen instance.
  Reflect.defineProperty(instance, LEADS, { value: marks, configurable: true });
  return true;
}

function* leaderMethodsIn(modules: ModulesContainer): Generator<FoundLeader> {
  for (const { provider, prototype } of prototypesIn(modules)) {
    // The method of a subclass comes after the one that it overrides.
    const methods = new Map(
      chainOf(prototype)
        .toReversed()
        .flatMap((each) => [...leaderMethods.of(each)]),
    );
    for (const [key, method] of methods) {
      const service = boundService(provider, method.service);
      yield { method, key, provider, service };
    }
  }
}
