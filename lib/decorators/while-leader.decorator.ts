import { checkValue, type OptionRule } from '../core/checks/check-options.js';
import { LockConfigError } from '../core/errors.js';
import type { Lock } from '../core/hold/lock.js';
import { leaderMethods } from '../locked/leader-methods.js';
import type { LeadOptions } from '../options/lead.options.js';
import { checkAt } from '../options/option-table.js';
import { DEFAULT_INSTANCE } from '../options/redis-lock.options.js';
import { methodBelow, refuseStatic } from './describe-method.js';
import { injectServiceInto } from './inject-lock-service.decorator.js';
import type { NoGenerator, NoMethod, OnlyMethods } from './locked.decorator.js';

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
export type WhileLeaderDecorator = <M extends LeaderFunction = NoMethod>(
  target: object,
  propertyKey: string | symbol,
  descriptor?: TypedPropertyDescriptor<M> & NoGenerator<M>,
) => OnlyMethods<M>;

const resourceRule: OptionRule = {
  allowed: 'a resource without placeholders, such as report',
  fits: (value) => typeof value === 'string' && value !== '' && !/<.*>/s.test(value),
};

/**
 * Runs the method in one process at a time, the leader. See `LockService.lead()`.
 *
 * ```ts
 * @WhileLeader('report')
 * async run(signal: AbortSignal): Promise<void> {
 *   while (!signal.aborted) await this.writeReport(signal);
 * }
 * ```
 *
 * The module calls it on each instance of the class at the beginning of each term, with the signal and the lock of the
 * term. The first call comes when the application has started, after all `onModuleInit` hooks. The method must end soon
 * after the signal has aborted. Only then is the lock released, and this process campaigns again.
 *
 * If the method returns, this process keeps leading, and calls the method again in its next term. If it throws, the
 * error is logged and this process steps down. A direct call runs the method without leadership.
 *
 * @throws {LockConfigError} at decoration, if the resource or an option is not allowed, or on a static method, an
 * accessor, a generator or a method with another `@WhileLeader`. When the application starts, if the class is
 * request-scoped or transient, if a factory or a value provides it without `bindLocks()`, or if the resource cannot
 * form a key.
 *
 * @publicApi
 */
export function WhileLeader(resource: string, options: WhileLeaderOptions = {}): WhileLeaderDecorator {
  const decorate = (target: object, propertyKey: string | symbol, descriptor?: PropertyDescriptor): void => {
    const { where: name } = methodBelow('@WhileLeader', target, propertyKey, descriptor, 'run');
    const place = `@WhileLeader of ${name}`;
    refuseStatic('@WhileLeader', name, target);
    if (leaderMethods.of(target).has(propertyKey))
      throw new LockConfigError(`${name}: there is a second @WhileLeader; a method may have only one.`);
    checkValue(place, 'the resource', resource, resourceRule);
    const { ttlMs, name: instance = DEFAULT_INSTANCE } = checkAt('@WhileLeader', options, place);
    const service = injectServiceInto(target, instance);
    leaderMethods.add(target, propertyKey, { name, resource, ttlMs, service });
  };
  return decorate as WhileLeaderDecorator;
}
