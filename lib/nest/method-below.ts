import { Observable } from 'rxjs';
import { LockConfigError } from '../common/errors.js';
import { formatName, shortened } from '../common/format-value.js';
import type { Method } from './decorated-method.js';

/** What a compiler passes to a decorator beside its target: a member's name, or the context of a standard decorator. */
type Member = string | symbol | { readonly kind: string; readonly name: string | symbol };

/**
 * Refuses a decorator that was written without parentheses. It would do nothing, and the method would run unlocked.
 *
 * @param args what the decorator's function was called with.
 * @param example how to write it.
 * @throws LockConfigError that says how to write it.
 */
export function refuseBare(decorator: string, args: readonly unknown[], example: string): void {
  const [target, second] = args;
  if (typeof target === 'string' || !isMember(second)) return;
  const where = typeof second === 'object' ? methodName(second.name) : describeMethod(target as object, second);
  throw new LockConfigError(`${where}: ${decorator} is written without parentheses; write ${example}.`);
}

function isMember(value: unknown): value is Member {
  if (typeof value === 'string' || typeof value === 'symbol') return true;
  return typeof (value as { readonly kind?: unknown } | null | undefined)?.kind === 'string';
}

/**
 * Returns the method below a decorator, and its name for messages.
 *
 * @param purpose what the decorator cannot do with a generator: `hold a lock for`.
 * @throws LockConfigError if the decorator is above something else, a static method or a generator, or if a compiler
 * without `experimentalDecorators` calls it as a standard decorator.
 */
export function methodBelow(
  decorator: string,
  target: object,
  propertyKey: Member,
  descriptor: PropertyDescriptor | undefined,
  purpose: string,
): { readonly where: string; readonly original: Method } {
  if (typeof propertyKey === 'object')
    throw new LockConfigError(
      `${methodName(propertyKey.name)}: ${decorator} was called as a standard decorator, ` +
        `but Nest and this library use the older ones. Set "experimentalDecorators": true and ` +
        `"emitDecoratorMetadata": true in the compilerOptions of tsconfig.json. For swc, set ` +
        `jsc.transform.legacyDecorator and jsc.transform.decoratorMetadata.`,
    );
  const where = describeMethod(target, propertyKey);
  const method: unknown = descriptor?.value;
  if (typeof method !== 'function') throw new LockConfigError(`${where}: ${decorator} can only be above a method.`);
  if (/Generator/.test(method.constructor.name))
    throw new LockConfigError(`${where}: ${decorator} cannot ${purpose} a generator.`);
  if (typeof target === 'function')
    throw new LockConfigError(`${where}: ${decorator} needs an instance that Nest makes: static methods have none.`);
  return { where, original: method as Method };
}

/** Returns whether a method declares that it returns an Observable. */
export function returnsObservable(target: object, propertyKey: string | symbol): boolean {
  const type: unknown = Reflect.getMetadata('design:returntype', target, propertyKey);
  return typeof type === 'function' && (type === Observable || type.prototype instanceof Observable);
}

/** Returns a method's name for messages: `GoodsController.buy`. Without a key, returns that of the constructor. */
export function describeMethod(target: object, propertyKey: string | symbol | undefined): string {
  // The target is a prototype, or the class for a static method.
  const { name } = typeof target === 'function' ? target : target.constructor;
  return `${name === '' ? '(anonymous class)' : shortened(name)}.${methodName(propertyKey)}`;
}

function methodName(propertyKey: string | symbol | undefined): string {
  return typeof propertyKey === 'symbol' ? shortened(String(propertyKey)) : formatName(propertyKey ?? 'constructor');
}
