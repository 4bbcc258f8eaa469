import { METHOD_METADATA, PATH_METADATA } from '@nestjs/common/constants.js';
import type { DiscoveryService } from '@nestjs/core';
import { describeUnsupported } from '../engine/error-texts.js';
import { describeHoldTimes } from '../options/resolve-options.js';
import { LockConfigError } from '../common/errors.js';
import { transactionsAreScopes } from '../engine/lock-scope.js';
import type { LockService } from '../lock.service.js';
import {
  chainOf,
  decoratedMethodOf,
  functionOf,
  isOwnWrapper,
  type LockedMethod,
  lockedMethods,
} from './decorated-method.js';
import { findLeaderProblem, leaderMethods } from './leader.js';

/** What Nest knows about a provider or a controller. */
type Provider = ReturnType<DiscoveryService['getProviders']>[number];

/** What the checks report to. */
interface CheckTarget {
  readonly service: LockService;
  /** The injection token of the service. The checks look at the methods that name it. */
  readonly token: unknown;
  /** What to do about decorators in a wrong order. */
  readonly level: 'warn' | 'error' | 'off';
  warn(message: string): void;
}

/**
 * Checks the decorated methods of all providers and controllers before the first call. Logs the findings that are
 * warnings, once for each method.
 *
 * @throws LockConfigError that names all methods that cannot work, and those with a finding if `level` is `error`.
 */
export function checkProviders(discovery: DiscoveryService, target: CheckTarget): void {
  const findings = new Findings(target);
  for (const provider of [...discovery.getProviders(), ...discovery.getControllers()]) {
    if (provider.isAlias) continue;
    const { metatype, instance, isNotMetatype } = provider;
    // A factory or a value has no class that Nest knows.
    const prototype: unknown = isNotMetatype ? prototypeOf(instance) : metatype?.prototype;
    if (typeof prototype === 'object' && prototype !== null) findings.checkClass(prototype, isSingleton(provider));
  }
  findings.report();
}

/** Returns the singletons of an application. Two providers may have one instance. */
export function singletonsOf(discovery: DiscoveryService): ReadonlySet<object> {
  const singletons = new Set<object>();
  for (const provider of [...discovery.getProviders(), ...discovery.getControllers()]) {
    const instance: unknown = provider.isAlias ? undefined : provider.instance;
    if (typeof instance === 'object' && instance !== null && isSingleton(provider)) singletons.add(instance);
  }
  return singletons;
}

function isSingleton(provider: Provider): boolean {
  return !provider.isTransient && provider.isDependencyTreeStatic();
}

function prototypeOf(instance: unknown): unknown {
  return typeof instance === 'object' && instance !== null ? Object.getPrototypeOf(instance) : undefined;
}

/** What the checks have found. */
class Findings {
  private readonly errors = new Set<string>();
  private readonly warnings = new Set<string>();
  private readonly checked = new Set<object>();

  constructor(private readonly target: CheckTarget) {}

  checkClass(prototype: object, isSingletonClass: boolean): void {
    const { service, token } = this.target;
    if (this.checked.has(prototype)) return;
    this.checked.add(prototype);
    const chain = chainOf(prototype);
    for (const [index, owner] of chain.entries()) {
      for (const [key, method] of lockedMethods.of(owner)) {
        // A class may override the method without a lock of its own.
        const isOverridden = chain.slice(0, index).some((each) => Object.hasOwn(each, key));
        if (method.token === token && !isOverridden) this.checkMethod(method, owner);
      }
    }
    for (const method of leaderMethods.ofChain(prototype).values()) {
      if (method.token === token) this.add('error', findLeaderProblem(method, service, isSingletonClass));
    }
  }

  /**
   * Logs the warnings.
   *
   * @throws LockConfigError that contains all errors.
   */
  report(): void {
    if (this.errors.size > 0) throw new LockConfigError([...this.errors].join('\n'));
    for (const warning of this.warnings) this.target.warn(warning);
  }

  private checkMethod(method: LockedMethod, owner: object): void {
    const { defaults, engine } = this.target.service;
    const { mode, onceMs } = method.options;
    const place = `@Locked of ${method.name}`;
    this.add('error', describeHoldTimes({ ...defaults, ...method.options }, place));
    const refusal = describeUnsupported(engine.store.capabilities, { mode, onceMs });
    if (refusal !== undefined) this.add('error', `${place}: ${refusal}; ${ADVICE}.`);
    const outermost = functionOf(owner, method.key);
    if (outermost !== undefined && isHandler(outermost)) {
      // Interceptors recognize a handler by the metadata of its function.
      if (decoratedMethodOf(outermost)?.locked !== method) this.add('error', `${method.name}: ${REPLACED_HANDLER}`);
      // The warning would be wrong for transactions that are scopes.
    } else if (!transactionsAreScopes()) this.add(this.target.level, findReplacedMethod(method, outermost));
  }

  private add(level: CheckTarget['level'], finding: string | undefined): void {
    if (finding === undefined || level === 'off') return;
    (level === 'error' ? this.errors : this.warnings).add(finding);
  }
}

const ADVICE = 'leave the option out, or name a module instance whose store can do it, such as token()';

// Keys of packages that an application may not have.
const HANDLER_METADATA = ['microservices:pattern', 'websockets:message_mapping', 'graphql:resolver_type'];

/** Returns whether Nest runs interceptors around a method, so that its lock is held until the response is complete. */
function isHandler(outermost: object): boolean {
  const has = (key: string): boolean => Reflect.hasMetadata(key, outermost);
  return (has(PATH_METADATA) && has(METHOD_METADATA)) || HANDLER_METADATA.some(has);
}

const REPLACED_HANDLER =
  'a decorator above @Locked replaced the handler with a function without the metadata of the method, so the lock ' +
  'would end before the response is complete. Put @Locked above that decorator.';

/** Returns a finding if another decorator is above `@Locked` and has replaced the method's function. */
function findReplacedMethod(method: LockedMethod, outermost: object | undefined): string | undefined {
  // Accessors also count, because nothing is known about the function that they return.
  if (outermost !== undefined && isOwnWrapper(outermost)) return undefined;
  return (
    `${method.name}: another decorator is above @Locked and replaces the method. The lock is released before ` +
    `that decorator ends, for example before its transaction commits. Put @Locked above it, or @LockScope() above ` +
    `both. To turn this warning off, set checks: 'off'.`
  );
}
