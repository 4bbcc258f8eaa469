import { types } from 'node:util';
import type { ModulesContainer } from '@nestjs/core';
import {
  instancesOf,
  lockedMethodsOf,
  type NestModule,
  type Provider,
  providersOf,
  visibleProvider,
} from './providers.js';

/** What Nest calls to make the instances of a factory provider. */
type Factory = (...args: unknown[]) => unknown;

/** Factories whose results are bound when they are made. */
const bindingFactories = new WeakSet<object>();

/** The getters that this file has put on instances. The application that starts last owns them. */
const getters = new WeakSet<object>();

/**
 * Gives the lock service to all instances in the container to which Nest has not given it: those of `useFactory` and
 * `useValue`, and those that factories make later. An instance gets the service that Nest would inject in its module.
 */
export function bindInstances(modules: ModulesContainer): void {
  for (const module of modules.values()) {
    for (const provider of providersOf(module)) {
      // Nest itself injects the service into instances that it makes from a class.
      if (!provider.isNotMetatype) continue;
      for (const instance of instancesOf(provider)) bindInstance(instance, module);
      if (provider.isFactory) bindLater(provider, module);
    }
  }
}

/** Binds what a factory returns later: for a request, for a transient provider, or because it is asynchronous. */
function bindLater(provider: Provider, module: NestModule): void {
  const { metatype } = provider;
  if (typeof metatype !== 'function' || bindingFactories.has(metatype)) return;
  const bind = (instance: unknown): unknown => {
    if (typeof instance === 'object' && instance !== null) bindInstance(instance, module);
    return instance;
  };
  const factory = new Proxy(metatype as Factory, {
    apply(target, self, args: unknown[]) {
      const made = Reflect.apply(target, self, args);
      return types.isPromise(made) ? made.then(bind) : bind(made);
    },
  });
  bindingFactories.add(factory);
  provider.metatype = factory;
}

function bindInstance(instance: object, module: NestModule): void {
  for (const { method } of lockedMethodsOf(instance)) {
    const { service, token } = method;
    const present = Reflect.getOwnPropertyDescriptor(instance, service)?.get;
    // Nest, bindLocks() or withLocks() has given the instance another service.
    if (service in instance && (present === undefined || !getters.has(present))) continue;
    const provider = visibleProvider(module, token);
    // Without a service in this module, or on a frozen object, the call throws an error that says what to do.
    if (provider === undefined || !Object.isExtensible(instance)) continue;
    // Read at each call, because the service may not exist yet while Nest is making the providers.
    const get = (): unknown => provider.instance;
    getters.add(get);
    Object.defineProperty(instance, service, { get, configurable: true });
  }
}
