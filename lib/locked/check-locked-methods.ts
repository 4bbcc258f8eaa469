import { MetadataScanner, type ModulesContainer } from '@nestjs/core';
import { LockConfigError } from '../core/errors.js';
import { kindOf, modeOf, modesOf } from '../core/store/lock-mode.js';
import { describeUnsupportedMode } from '../core/acquire/acquire-errors.js';
import type { LockService } from '../lock.service.js';
import type { LockedMethod } from './locked-call.js';
import { lockedHandlerOf } from './locked-method.js';

type NestModule = ModulesContainer extends Map<string, infer M> ? M : never;
type Provider = NestModule['providers'] extends Map<unknown, infer P> ? P : never;

const ADVICE = 'Leave the option out, or lock by a module instance whose store can do it, such as token()';

/**
 * Looks at all `@Locked` methods that a service locks for, before the first of them is called.
 *
 * @throws LockConfigError if some of them ask for what its store cannot do; naming all of them.
 */
export function checkLockedMethods(service: LockService, modules: ModulesContainer): void {
  const { capabilities } = service.engine.store;
  const refused = new Set<string>();
  for (const module of modules.values()) {
    for (const [method, provider] of lockedMethodsOf(module)) {
      const lacks = !modesOf(capabilities).includes(kindOf(modeOf(method.options)));
      if (lacks && serviceOf(provider, method) === service)
        refused.add(`@Locked of ${method.name}: ${describeUnsupportedMode(capabilities, modeOf(method.options))}.`);
    }
  }
  if (refused.size > 0) throw new LockConfigError(`${[...refused].join('\n')}\n${ADVICE}.`);
}

function lockedMethodsOf({ providers, controllers, injectables }: NestModule): readonly [LockedMethod, Provider][] {
  const scanner = new MetadataScanner();
  return [...providers.values(), ...controllers.values(), ...injectables.values()].flatMap((provider) => {
    const methods = provider.metatype?.prototype as Record<string, object> | undefined;
    if (methods === undefined) return [];
    return scanner.getAllMethodNames(methods).flatMap((name): [LockedMethod, Provider][] => {
      const method = lockedHandlerOf(methods[name]);
      return method === undefined ? [] : [[method, provider]];
    });
  });
}

/**
 * The lock service that a class was given, of several that may have one name. To classes that live for one request none was given
 * yet: then Nest has noted what they will be. Where there is none, Nest itself refuses whatever wants it.
 */
function serviceOf(provider: Provider, { service: property }: LockedMethod): unknown {
  const instance = provider.instance as Record<symbol, unknown> | undefined;
  const noted = provider.getPropertiesMetadata()?.findLast(({ key }) => key === property);
  return instance?.[property] ?? noted?.wrapper.instance;
}
