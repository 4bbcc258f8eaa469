import { MetadataScanner, type ModulesContainer } from '@nestjs/core';
import { describeUnsupportedMode } from '../core/acquire/acquire-errors.js';
import { LockConfigError } from '../core/errors.js';
import { kindOf, modeOf, modesOf } from '../core/store/lock-mode.js';
import type { LockService } from '../lock.service.js';
import { type LockedMethod, lockedMethodOf } from './locked-method.js';

type NestModule = ModulesContainer extends Map<string, infer M> ? M : never;
type Provider = NestModule['providers'] extends Map<unknown, infer P> ? P : never;

const ADVICE = 'Leave the option out, or lock by a module instance whose store can do it, such as token()';

/**
 * Checks the `mode` and `permits` of all `@Locked` methods that a service locks for, before the first call.
 *
 * @throws LockConfigError that names all methods whose mode the service's store does not have.
 */
export function checkLockedMethods(service: LockService, modules: ModulesContainer): void {
  const { capabilities } = service.engine.store;
  const unsupported = new Set<string>();
  for (const module of modules.values()) {
    for (const [method, provider] of lockedMethodsOf(module)) {
      const mode = modeOf(method.options);
      if (modesOf(capabilities).includes(kindOf(mode)) || serviceOf(provider, method) !== service) continue;
      unsupported.add(`@Locked of ${method.name}: ${describeUnsupportedMode(capabilities, mode)}.`);
    }
  }
  if (unsupported.size > 0) throw new LockConfigError(`${[...unsupported].join('\n')}\n${ADVICE}.`);
}

function lockedMethodsOf({ providers, controllers, injectables }: NestModule): readonly [LockedMethod, Provider][] {
  const scanner = new MetadataScanner();
  return [...providers.values(), ...controllers.values(), ...injectables.values()].flatMap((provider) => {
    const methods = provider.metatype?.prototype as Record<string, object> | undefined;
    if (methods === undefined) return [];
    return scanner.getAllMethodNames(methods).flatMap((name): [LockedMethod, Provider][] => {
      const method = lockedMethodOf(methods[name]);
      return method === undefined ? [] : [[method, provider]];
    });
  });
}

/** Returns the lock service that Nest injects into a class. Several module instances may have the same name. */
function serviceOf(provider: Provider, { service: property }: LockedMethod): unknown {
  const instance = provider.instance as Record<symbol, unknown> | undefined;
  // A class with request scope has no instance yet: Nest keeps what it is going to inject.
  const toInject = provider.getPropertiesMetadata()?.findLast(({ key }) => key === property);
  return instance?.[property] ?? toInject?.wrapper.instance;
}
