import type { ModulesContainer } from '@nestjs/core';
import { describeUnsupportedMode } from '../core/acquire/acquire-errors.js';
import { LockConfigError } from '../core/errors.js';
import { kindOf } from '../core/store/lock-mode.js';
import { isSameService, type LockService } from '../lock.service.js';
import type { ResolvedOptions } from '../options/resolve-options.js';
import { findReplacedMethod, findUnknownHandler } from './check-decorators.js';
import { findSynchronousMethod } from './check-return-type.js';
import { isHandler } from './handlers.js';
import { decoratedMethodOf } from './locked-method.js';
import { type FoundMethod, instancesOf, lockedMethodsOf, type Provider, prototypesIn } from './providers.js';
import { transactionsAreScopes } from '../core/hold/transaction-scopes.js';

/** How a module instance reports what it finds at startup. */
export interface StartChecks {
  readonly level: ResolvedOptions['checks'];
  warn(message: string): void;
}

const ADVICE = 'Leave the option out, or lock with a module instance whose store can do it, such as token()';

/**
 * Checks all `@Locked` methods that a service locks for, before the first call. Logs the findings that are warnings,
 * once for each method.
 *
 * @throws LockConfigError that names all methods with a mode that the store does not have, all synchronous ones, and
 * those with a finding that an option makes an error.
 */
export function checkLockedMethods(service: LockService, modules: ModulesContainer, checks: StartChecks): void {
  const { capabilities } = service.engine.store;
  const unsupported = new Set<string>();
  const errors = new Set<string>();
  const warnings = new Set<string>();
  const unknown = new Set<string>();
  const report = (level: StartChecks['level'], finding: string | undefined): void => {
    if (finding === undefined || level === 'off') return;
    (level === 'error' ? errors : warnings).add(finding);
  };
  // Transactions that are scopes keep their locks, whatever the order of the decorators.
  const order = transactionsAreScopes() ? 'off' : checks.level;
  for (const [found, provider, isController] of lockedMethodsIn(modules)) {
    const { method } = found;
    if (!isSameService(service, boundService(provider, method.service))) continue;
    const { mode } = method.options;
    if (!capabilities.modes.includes(kindOf(mode))) {
      unsupported.add(`@Locked of ${method.name}: ${describeUnsupportedMode(capabilities, mode)}.`);
    }
    report('error', findSynchronousMethod(found));
    if (!isHandler(found, isController)) report(order, findReplacedMethod(found));
    else {
      report('error', findUnknownHandler(found));
      if (!isKnownByInstances(found, provider)) unknown.add(method.name);
    }
  }
  if (unknown.size > 0) warnings.add(`${[...unknown].join(', ')}: ${WITHOUT_METADATA}`);
  if (unsupported.size > 0) errors.add(`${[...unsupported].join('\n')}\n${ADVICE}.`);
  if (errors.size > 0) throw new LockConfigError([...errors].join('\n'));
  for (const warning of warnings) checks.warn(warning);
}

const WITHOUT_METADATA =
  'the `instrument` of the application replaces these handlers with functions without their metadata. Their locks ' +
  'end with the method, not with the response, and Nest does not see their guards. Copy the metadata to the functions.';

/** Returns whether the function that Nest uses as the handler is known. Nest uses the instance's function. */
function isKnownByInstances({ key, method, owner, effective }: FoundMethod, provider: Provider): boolean {
  // Another check covers the class itself.
  if (effective !== owner || decoratedMethodOf(Reflect.get(owner, key) as object)?.locked !== method) return true;
  return instancesOf(provider).every((instance) => {
    const handler: unknown = Reflect.get(instance, key);
    return typeof handler !== 'function' || decoratedMethodOf(handler)?.locked === method;
  });
}

function* lockedMethodsIn(modules: ModulesContainer): Generator<[FoundMethod, Provider, isController: boolean]> {
  for (const { module, provider, prototype } of prototypesIn(modules)) {
    const isController = module.controllers.get(provider.token) === provider;
    for (const found of lockedMethodsOf(prototype)) yield [found, provider, isController];
  }
}

/** Returns the lock service of a provider's instances. Several module instances may have the same name. */
export function boundService(provider: Provider, property: symbol): unknown {
  for (const instance of instancesOf(provider)) {
    const service = (instance as Record<symbol, unknown>)[property];
    if (service !== undefined) return service;
  }
  // A request-scoped class has no instance yet, but Nest keeps what it will inject.
  const toInject = provider.getPropertiesMetadata()?.findLast(({ key }) => key === property);
  return toInject?.wrapper.instance;
}
