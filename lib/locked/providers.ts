import type { ModuleRef, ModulesContainer } from '@nestjs/core';
import { type LockedMethod, lockedMethods } from './locked-method.js';

/** A module in Nest's container. */
type NestModule = ModulesContainer extends Map<string, infer M> ? M : never;
/** What Nest knows about a provider, a controller or another injectable. */
export type Provider = NestModule['providers'] extends Map<unknown, infer P> ? P : never;

/** A method of a class that is `@Locked` there or in a base class. */
export interface FoundMethod {
  readonly key: string | symbol;
  readonly method: LockedMethod;
  /** The prototype that `@Locked` was applied to. */
  readonly owner: object;
  /** The prototype whose function is called: the owner's, or that of a class which overrides the method. */
  readonly effective: object;
}

/**
 * Returns the modules of an application. `ModulesContainer` is a `Map`, which does not work if the application's option
 * `instrument` has put a proxy in its place.
 */
export function modulesOf(moduleRef: ModuleRef): ModulesContainer {
  // The class of the property is not public. It is the same in Nest 10 to 12.
  const { container } = moduleRef as unknown as { readonly container: { getModules(): ModulesContainer } };
  return container.getModules();
}

/** Returns all providers, controllers and other injectables of a module, except aliases of others. */
function providersOf(module: NestModule): readonly Provider[] {
  const { providers, controllers, injectables, middlewares } = module;
  const all = [...providers.values(), ...controllers.values(), ...injectables.values(), ...middlewares.values()];
  return all.filter((provider) => !provider.isAlias);
}

/** Returns the instances that exist now, one for each class that injects a transient provider. */
export function instancesOf(provider: Provider): readonly object[] {
  const hosts = provider.isTransient ? provider.getStaticTransientInstances() : [];
  return [provider.instance, ...hosts.map((host) => host?.instance)].filter(
    (instance) => typeof instance === 'object' && instance !== null,
  );
}

/** Returns the prototypes of a provider's instances: that of its class, or of what its factory or value gives. */
function prototypesOf(provider: Provider): ReadonlySet<object> {
  if (provider.isNotMetatype)
    return new Set(instancesOf(provider).flatMap((instance) => chainOf(instance).slice(1, 2)));
  const prototype: unknown = provider.metatype?.prototype;
  return new Set(typeof prototype === 'object' && prototype !== null ? [prototype] : []);
}

/** Yields the prototypes of all providers, controllers and other injectables. */
export function* prototypesIn(
  modules: ModulesContainer,
): Generator<{ readonly module: NestModule; readonly provider: Provider; readonly prototype: object }> {
  for (const module of modules.values()) {
    for (const provider of providersOf(module)) {
      for (const prototype of prototypesOf(provider)) yield { module, provider, prototype };
    }
  }
}

/** Returns the `@Locked` methods of a prototype, inherited and overridden ones included. */
export function lockedMethodsOf(prototype: object): readonly FoundMethod[] {
  const chain = chainOf(prototype);
  return chain.flatMap((owner, index) => {
    const methods = [...lockedMethods.of(owner)];
    return methods.map(([key, method]) => {
      const effective = chain.slice(0, index).find((each) => Object.hasOwn(each, key)) ?? owner;
      return { key, method, owner, effective };
    });
  });
}

/** Returns an object and its prototypes, without `Object.prototype`. Stops at a prototype that cannot be read. */
export function chainOf(start: object): readonly object[] {
  const chain: object[] = [];
  try {
    for (let each: object | null = start; each !== null; each = Object.getPrototypeOf(each) as object | null) {
      if (each !== Object.prototype) chain.push(each);
    }
  } catch {
    // A revoked Proxy, or one whose handler throws.
  }
  return chain;
}
