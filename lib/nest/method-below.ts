import { Observable } from 'rxjs';
import { LockConfigError } from '../common/errors.js';
import { formatName, formatValue, shortened } from '../common/format-value.js';
import type { Method } from './decorated-method.js';

/**
 * Refuses a decorator that was written without parentheses. It would do nothing, and the method would run unlocked.
 *
 * @param args what the decorator's function was called with.
 * @param example how to write it.
 * @throws LockConfigError that says how to write it.
 */
export function refuseBare(decorator: string, args: readonly unknown[], example: string): void {
  const [target, second] = args;
  const isLegacy = typeof target === 'object' && target !== null && args.length > 1 && !isOptions(second);
  const isStatic = typeof target === 'function' && (typeof second === 'string' || typeof second === 'symbol');
  const isStandard = typeof target === 'function' && typeof (second as { kind?: unknown } | null)?.kind === 'string';
  if (!isLegacy && !isStatic && !isStandard) return;
  const name = isStandard ? (second as { name?: unknown }).name : second;
  const where = isStandard ? methodName(name) : describeMethod(target, name as string | symbol);
  throw new LockConfigError(`${where}: ${decorator} is written without parentheses; write ${example}.`);
}

function isOptions(value: unknown): boolean {
  return typeof value === 'object' || value === undefined;
}

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

/** Returns whether a method declares that it returns an Observable. */
export function returnsObservable(target: object, propertyKey: string | symbol): boolean {
  const type: unknown = Reflect.getMetadata('design:returntype', target, propertyKey);
  return typeof type === 'function' && (type === Observable || type.prototype instanceof Observable);
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

/**
 * Checks that a method decorator was called as TypeScript's `experimentalDecorators` require. Without that option,
 * compilers pass the context of a standard decorator in place of the method's name.
 *
 * @throws LockConfigError that names the compiler options.
 */
function refuseStandardDecorator(decorator: string, context: unknown): void {
  if (typeof context !== 'object' || context === null) return;
  throw new LockConfigError(
    `${nameIn(context)}: ${decorator} was called as a standard decorator, ` +
      `but Nest and this library use the older ones. Set "experimentalDecorators": true and ` +
      `"emitDecoratorMetadata": true in the compilerOptions of tsconfig.json. For swc, set ` +
      `jsc.transform.legacyDecorator and jsc.transform.decoratorMetadata.`,
  );
}

function nameIn(context: { readonly name?: unknown }): string {
  try {
    return methodName(context.name);
  } catch {
    // An object that cannot be read is not a context, but the advice still applies.
    return 'a method';
  }
}
