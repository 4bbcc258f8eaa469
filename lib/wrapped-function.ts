import { aFunction, checkValue } from './common/check-options.js';
import { LockConfigError } from './common/errors.js';
import { formatName } from './common/format-value.js';
import { modeOf } from './contract/lock-mode.js';
import type { Lock } from './engine/lock.js';
import type { AcquireOptions } from './engine/options.js';
import { type Hold, runOnce, runUnder } from './engine/hold.js';
import { familyOfTemplate } from './events/call.js';
import { bindTemplate, namesSeveral, parametersOf, type ResourceOption, resourceOfCall } from './keys/bind-template.js';
import { checkAt } from './options/option-table.js';
import { checkHoldTimes, checkMode, checkOnce, type ResolvedLockOptions } from './options/resolve-options.js';
import type { WrapOptions } from './options/wrap.options.js';
import { labelOf, resultInstead } from './result-instead.js';

/** A function of any kind. */
export type AnyFunction = (this: unknown, ...args: unknown[]) => unknown;

/** Acquires what one call locks. */
type Acquire = (
  resources: string | readonly string[],
  options: ResolvedLockOptions & Pick<AcquireOptions, 'method' | 'family'>,
) => Promise<Hold>;

const USER = { name: 'wrap()' };

/**
 * Returns a function that runs `fn` under a lock. It has the name and the number of parameters of `fn`.
 *
 * @param defaults the options of locks that are not given.
 * @throws LockKeyError if a template is invalid, or names a parameter that cannot be bound.
 * @throws LockConfigError if an option is not allowed, or `fn` is not a function or is a generator.
 */
export function wrapFunction(
  acquire: Acquire,
  defaults: ResolvedLockOptions,
  resource: ResourceOption,
  given: WrapOptions,
  fn: AnyFunction,
): AnyFunction {
  checkValue('wrap()', 'the function', fn, aFunction);
  const name = fn.name === '' ? undefined : formatName(fn.name);
  const where = name === undefined ? 'wrap()' : `wrap() of ${name}`;
  if (/Generator/.test(fn.constructor.name)) throw new LockConfigError(`${where} cannot hold a lock for a generator.`);
  const known = checkOnce(checkMode(checkAt('wrap()', given, where), where), where);
  if (known.onceMs !== undefined && namesSeveral(resource))
    throw new LockConfigError(`${where}: onceMs is set for several resources; expected one.`);
  const { onBusy = 'throw', onUnavailable = 'throw', label, mode, permits, ...rest } = known;
  const options = { ...defaults, ...rest, mode: modeOf({ mode, permits }) };
  checkHoldTimes(options, where);
  const source = parametersOf(fn);
  const bind = (template: string) => bindTemplate(template, where, source, USER);
  const resourceOf = resourceOfCall(resource, where, USER, bind);
  const family = typeof resource === 'string' ? familyOfTemplate(resource) : undefined;

  const wrapped = async function (this: unknown, ...args: unknown[]): Promise<unknown> {
    let lock: Hold;
    try {
      const call = { method: name, family, label: labelOf(where, label, this, args) };
      lock = await acquire(resourceOf(this, args), { ...options, ...call });
    } catch (error) {
      return resultInstead(error, { onBusy, onUnavailable }, this, args);
    }
    const work = (): unknown => Reflect.apply(fn, this, args);
    const { onceMs } = options;
    return runUnder(lock, options.onLost, onceMs === undefined ? work : () => runOnce(lock as Lock, onceMs, work));
  };
  // Frameworks read them: a handler of Express with four parameters gets errors.
  const { name: ownName, length } = fn;
  return Object.defineProperties(wrapped, {
    name: { value: ownName, configurable: true },
    length: { value: length, configurable: true },
  });
}
