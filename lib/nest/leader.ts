import { checkValue, type OptionRule } from '../common/check-options.js';
import { LockConfigError, messageOf } from '../common/errors.js';
import type { Lock } from '../engine/lock.js';
import type { LockService } from '../lock.service.js';
import type { LeadOptions } from '../options/lead.options.js';
import { checkAt } from '../options/option-table.js';
import { DEFAULT_INSTANCE } from '../options/redis-lock.options.js';
import { injectServiceInto } from './bind.js';
import { type Method, MethodRegistry, type ServiceBinding } from './decorated-method.js';
import { methodBelow, refuseBare } from './method-below.js';

/**
 * The options of {@link WhileLeader}.
 *
 * @publicApi
 */
export interface WhileLeaderOptions extends Pick<LeadOptions, 'ttlMs'> {
  /**
   * The `name` of the module instance that leads, if an application has several.
   *
   * @default 'default'
   */
  readonly name?: string | undefined;
}

type LeaderFunction = (signal: AbortSignal, lock: Lock) => unknown;

/** The result of {@link WhileLeader}: a decorator for methods that take the signal and the lock, or fewer arguments. */
type WhileLeaderDecorator = <M extends LeaderFunction>(
  target: object,
  propertyKey: string | symbol,
  descriptor?: TypedPropertyDescriptor<M>,
) => void;

/** A method that is decorated with `@WhileLeader`. */
interface LeaderMethod extends ServiceBinding {
  /** `ReportService.run` */
  readonly name: string;
  /** The name of the method in its class. */
  readonly key: string | symbol;
  readonly resource: string;
  readonly ttlMs: number | undefined;
}

/** The `@WhileLeader` methods. */
export const leaderMethods = new MethodRegistry<LeaderMethod>('leader-methods');

const resourceRule: OptionRule = {
  allowed: 'a resource without placeholders, such as report',
  fits: (value) => typeof value === 'string' && value !== '' && !/<.*>/s.test(value),
};

/**
 * Runs the method in one process at a time, the leader. See `LockService.lead()`.
 *
 * ```ts
 * class Reports { @WhileLeader('report') async run(signal: AbortSignal): Promise<void> { … } }
 * ```
 *
 * The module calls it on each instance of the class at the beginning of each term, with the signal and the lock of the
 * term. The first call comes when the application has started, after all `onModuleInit` hooks. The method must end soon
 * after the signal has aborted. Only then is the lock released, and this process campaigns again.
 *
 * If the method returns, this process keeps leading, and calls the method again in its next term. If it throws, the
 * error is logged and this process steps down. A direct call runs the method without leadership.
 *
 * @throws {LockConfigError} at decoration, if the resource or an option is not allowed, or if the decorator has no
 * parentheses, or is on a static method, an accessor, a generator or a method with another `@WhileLeader`. When the
 * application starts, if the class is request-scoped or transient, or if the resource cannot form a key.
 *
 * @publicApi
 */
export function WhileLeader(resource: string, options?: WhileLeaderOptions): WhileLeaderDecorator;
export function WhileLeader(...args: [resource: string, options?: WhileLeaderOptions]): WhileLeaderDecorator {
  refuseBare('@WhileLeader', args, `@WhileLeader('report')`);
  const [resource, options = {}] = args;
  const decorate = (target: object, propertyKey: string | symbol, descriptor?: PropertyDescriptor): void => {
    const { where: name } = methodBelow('@WhileLeader', target, propertyKey, descriptor, 'run');
    const place = `@WhileLeader of ${name}`;
    if (leaderMethods.of(target).has(propertyKey))
      throw new LockConfigError(`${name}: there is a second @WhileLeader; a method may have only one.`);
    checkValue(place, 'the resource', resource, resourceRule);
    const { ttlMs, name: instance = DEFAULT_INSTANCE } = checkAt('@WhileLeader', options, place);
    const binding = injectServiceInto(target, instance);
    leaderMethods.add(target, propertyKey, { name, key: propertyKey, resource, ttlMs, ...binding });
  };
  return decorate;
}

/**
 * Returns why a method cannot lead. Undefined if it can.
 *
 * @param isSingleton whether its class has one instance for the whole application.
 */
export function findLeaderProblem(
  { name, resource, ttlMs }: LeaderMethod,
  service: LockService,
  isSingleton: boolean,
): string | undefined {
  const place = `@WhileLeader of ${name}`;
  if (!isSingleton) return `${place}: its class is request-scoped or transient; expected a singleton.`;
  try {
    service.checkLead(resource, { ttlMs });
    return undefined;
  } catch (error) {
    return `${place}: ${messageOf(error)}`;
  }
}

/** Starts a candidate for each `@WhileLeader` method of an instance that names this service. */
export function startLeaders(instance: object, service: LockService, token: unknown): void {
  for (const [key, method] of leaderMethods.ofChain(instance)) {
    if (method.token !== token) continue;
    const { resource, ttlMs, name } = method;
    // Read at each term, because a test may have replaced the method.
    const onElected: LeadOptions['onElected'] = (lock) =>
      Reflect.apply((instance as Record<string | symbol, Method>)[key], instance, [lock.signal, lock]);
    service.campaign(resource, { ttlMs, onElected }, name);
  }
}
