import { LockConfigError } from '../core/errors.js';
import { formatName, formatValue, shortened } from '../core/format-value.js';
import type { Method } from '../locked/locked-method.js';
import { refuseStandardDecorator } from './standard-decorators.js';

/**
 * Returns the method below a decorator, and its name for messages.
 *
 * @param purpose what the decorator cannot do with a generator: `hold a lock for`.
 * @throws LockConfigError if the decorator is above something else or a generator, or is called as a standard
 * decorator.
 */
export function methodBelow(
  decorator: string,
  target: object,
  propertyKey: string | symbol,
  descriptor: PropertyDescriptor | undefined,
  purpose: string,
): { readonly where: string; readonly original: Method } {
  refuseStandardDecorator(decorator, propertyKey);
  const where = describeMethod(target, propertyKey);
  const method: unknown = descriptor?.value;
  if (typeof method !== 'function') throw new LockConfigError(`${where}: ${decorator} can only be above a method.`);
  if (/Generator/.test(method.constructor.name))
    throw new LockConfigError(`${where}: ${decorator} cannot ${purpose} a generator.`);
  return { where, original: method as Method };
}

/** @throws LockConfigError if the target of a method decorator is the class, not its prototype. */
export function refuseStatic(decorator: string, where: string, target: object): void {
  if (typeof target !== 'function') return;
  throw new LockConfigError(`${where}: ${decorator} needs an instance that Nest makes: static methods have none.`);
}

/** Returns a method's name for messages: `GoodsController.buy`. Without a key, returns that of the constructor. */
export function describeMethod(target: object, propertyKey: string | symbol | undefined): string {
  return `${className(target)}.${methodName(propertyKey)}`;
}

/** Returns the class of a decorator's target. The target is a prototype, or the class for a static method. */
export function classOf(target: object): (abstract new (...args: never[]) => unknown) | undefined {
  const found: unknown = typeof target === 'function' ? target : target.constructor;
  return typeof found === 'function' ? (found as abstract new (...args: never[]) => unknown) : undefined;
}

function className(target: object): string {
  try {
    const name: unknown = classOf(target)?.name;
    if (typeof name === 'string' && name !== '') return shortened(name);
  } catch {
    // Other kinds of decorators get other targets. The error that follows says so.
  }
  return '(anonymous class)';
}

function methodName(propertyKey: unknown): string {
  if (propertyKey === undefined) return 'constructor';
  if (typeof propertyKey === 'symbol') return shortened(String(propertyKey));
  return typeof propertyKey === 'string' ? formatName(propertyKey) : formatValue(propertyKey);
}
