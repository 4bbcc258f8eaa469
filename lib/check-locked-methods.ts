import { Inject } from '@nestjs/common';
import { MetadataScanner, ModuleRef, type ModulesContainer } from '@nestjs/core';
import { LockConfigError } from './core/errors.js';
import { kindOf, modeOf, modesOf } from './core/lock-mode.js';
import { lackOf } from './core/refusal.js';
import { getLockServiceToken } from './inject-lock-service.decorator.js';
import type { LockService } from './lock.service.js';
import type { LockedMethod } from './locked-call.js';
import { serviceProperty } from './locked.decorator.js';
import { lockedHandlerOf } from './locked-method.js';

type NestModule = ModulesContainer extends Map<string, infer M> ? M : never;

const ADVICE = 'Leave the option out, or lock by a module instance whose store can do it, such as token()';

/**
 * Looks at all `@Locked` methods that a service locks for, before the first of them is called.
 *
 * @param name the service's instance name.
 * @throws LockConfigError if some of them ask for what its store cannot do; naming all of them.
 */
export async function checkLockedMethods(service: LockService, name: string, modules: ModulesContainer): Promise<void> {
  const { capabilities } = service.engine.store;
  const refused = new Set<string>();
  for (const module of modules.values()) {
    const methods = lockedMethodsOf(module).filter((method) => method.service === serviceProperty(name));
    const lacking = methods.filter(({ options }) => !modesOf(capabilities).includes(kindOf(modeOf(options))));
    if (lacking.length === 0 || (await serviceIn(module, name)) !== service) continue;
    for (const method of lacking)
      refused.add(`@Locked of ${method.name}: ${lackOf(capabilities, modeOf(method.options))}.`);
  }
  if (refused.size > 0) throw new LockConfigError(`${[...refused].join('\n')}\n${ADVICE}.`);
}

function lockedMethodsOf({ providers, controllers, injectables }: NestModule): readonly LockedMethod[] {
  const scanner = new MetadataScanner();
  return [...providers.values(), ...controllers.values(), ...injectables.values()].flatMap(({ metatype }) => {
    const methods = metatype?.prototype as Record<string, object> | undefined;
    if (methods === undefined) return [];
    return scanner.getAllMethodNames(methods).flatMap((method) => lockedHandlerOf(methods[method]) ?? []);
  });
}

/**
 * The lock service of that name which Nest gives to classes of a module: several may have one name. Nest is asked, and not what
 * instances were given, because those that live for one request are not there yet.
 */
async function serviceIn(module: NestModule, name: string): Promise<LockService | undefined> {
  class Probe {
    readonly locks?: LockService;
  }
  Inject(getLockServiceToken(name))(Probe.prototype, 'locks');
  const moduleRef = module.getProviderByKey<ModuleRef>(ModuleRef).instance;
  // Where there is none, Nest itself refuses whatever wants it.
  const probe = await moduleRef.create(Probe).catch(() => undefined);
  return probe?.locks;
}
