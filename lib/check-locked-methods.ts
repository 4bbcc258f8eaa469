import { MetadataScanner, type ModulesContainer } from '@nestjs/core';
import { LockConfigError } from './core/errors.js';
import { kindOf, modeOf, modesOf } from './core/lock-mode.js';
import { lackOf } from './core/refusal.js';
import type { LockService } from './lock.service.js';
import type { LockedMethod } from './locked-call.js';
import { lockedHandlerOf } from './locked-method.js';

const ADVICE = 'Leave the option out, or lock by a module instance whose store can do it, such as token()';

/**
 * Looks at all `@Locked` methods that a service locks for, before the first of them is called.
 *
 * @throws LockConfigError if some of them ask for what its store cannot do; naming all of them.
 */
export function checkLockedMethods(service: LockService, modules: ModulesContainer): void {
  const { capabilities } = service.engine.store;
  const refused = new Set<string>();
  for (const { name, options } of lockedMethodsOf(service, modules)) {
    const mode = modeOf(options);
    if (!modesOf(capabilities).includes(kindOf(mode)))
      refused.add(`@Locked of ${name}: ${lackOf(capabilities, mode)}.`);
  }
  if (refused.size > 0) throw new LockConfigError(`${[...refused].join('\n')}\n${ADVICE}.`);
}

/** What Nest has resolved tells by which service a method locks, also where several have one name in different modules. */
function* lockedMethodsOf(service: LockService, modules: ModulesContainer): Generator<LockedMethod> {
  const scanner = new MetadataScanner();
  for (const { providers, controllers, injectables } of modules.values()) {
    for (const host of [...providers.values(), ...controllers.values(), ...injectables.values()]) {
      const properties: ReturnType<typeof host.getPropertiesMetadata> | undefined = host.getPropertiesMetadata();
      const injected = new Map(properties?.map(({ key, wrapper }) => [key, wrapper.instance as unknown]));
      if (![...injected.values()].includes(service)) continue;
      const methods = host.metatype?.prototype as Record<string, object>;
      for (const name of scanner.getAllMethodNames(methods)) {
        const method = lockedHandlerOf(methods[name]);
        if (method !== undefined && injected.get(method.service) === service) yield method;
      }
    }
  }
}
