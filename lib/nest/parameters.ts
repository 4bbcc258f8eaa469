import 'reflect-metadata';
import { CUSTOM_ROUTE_ARGS_METADATA, ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import { LockConfigError, LockKeyError } from '../common/errors.js';
import { formatValue, shortened } from '../common/format-value.js';
import { bindTemplate as bindNames, type Names, type TemplateUser } from '../keys/bind-template.js';
import { isParameterName, type RenderResource } from '../keys/key-template.js';
import { functionParameters, methodParameters, type ParameterList } from '../keys/source-parameters.js';
import { describeMethod } from './method-below.js';

const LOCK_PARAMS = 'nestjs-redis-lock:params';

/**
 * Names a parameter for the templates of `@Locked`: `buy(@LockParam('id') goodsId: string)` under
 * `@Locked('goods:<id>')`. This name takes precedence over the names from other decorators and from the source.
 * Minifiers cannot change it.
 *
 * @throws {LockKeyError} at decoration, if no placeholder can contain the name, if two parameters have the same name,
 * or if the decorator is on a parameter of a constructor.
 *
 * @publicApi
 */
export function LockParam(name: string): ParameterDecorator {
  return (target, propertyKey, index) => {
    const where = describeMethod(target, propertyKey);
    if (propertyKey === undefined) throw new LockKeyError(`${where}: @LockParam() is for parameters of methods.`);
    if (!isParameterName(name)) {
      throw new LockKeyError(
        `${where}: @LockParam(${formatValue(name)}) is not a valid placeholder name. ` +
          `It starts with a letter and continues with letters, digits, '_', '$' or '-'.`,
      );
    }
    const params = new Map(lockParams(target, propertyKey));
    if (params.has(name))
      throw new LockKeyError(`${where}: two parameters are named @LockParam('${shortened(name)}').`);
    Reflect.defineMetadata(LOCK_PARAMS, params.set(name, index), target, propertyKey);
  };
}

/** Returns the indexes of the parameters with `@LockParam`, by name, without those of an overridden method. */
export function lockParams(target: object, propertyKey: string | symbol): ReadonlyMap<string, number> {
  // An override may have its parameters in a different order.
  const params = Reflect.getOwnMetadata(LOCK_PARAMS, target, propertyKey) as ReadonlyMap<string, number> | undefined;
  return params ?? new Map();
}

const CURRENT_LOCK = 'nestjs-redis-lock:current-lock';

/**
 * Injects the held lock into a parameter of a `@Locked` method: a `Lock`, or a `MultiLock` if the method locks several
 * resources. Use it for the fencing token, for the signal, or to extend the lease. The lock replaces the argument that
 * the caller passes. Nest's parameter decorators still work on the same parameter. In a handler, `release()` does not
 * release the lock before the response is complete.
 *
 * @throws {LockConfigError} at decoration, if the decorator is on a parameter of a constructor.
 *
 * @publicApi
 */
export function CurrentLock(): ParameterDecorator {
  return (target, propertyKey, index) => {
    if (propertyKey === undefined) {
      throw new LockConfigError(`${describeMethod(target, propertyKey)}: @CurrentLock() is for parameters of methods.`);
    }
    // Not among Nest's route arguments, where Nest would resolve the parameter and pipes would transform it.
    Reflect.defineMetadata(CURRENT_LOCK, [index, ...currentLockIndexes(target, propertyKey)], target, propertyKey);
  };
}

/** Returns the indexes of the parameters with `@CurrentLock()`, without those of an overridden method. */
export function currentLockIndexes(target: object, propertyKey: string | symbol): readonly number[] {
  return (Reflect.getOwnMetadata(CURRENT_LOCK, target, propertyKey) as readonly number[] | undefined) ?? [];
}

type AnyMethod = (...args: never[]) => unknown;

export const LOCKED: TemplateUser = {
  name: '@Locked',
  naming: (name) => `Put @LockParam('${name}') or @Param('${name}') on the parameter`,
};

/**
 * Prepares a template for one method. A name is looked up in this order: `@LockParam('id')`, Nest's own route
 * decorators (`@Param('id')`, not custom ones), the parameter's name in the source.
 *
 * @param target the prototype, as a method decorator gets it.
 * @param method the function that `propertyKey` has now. Another decorator may have wrapped it.
 * @returns a function that renders the resource of one call. It throws `LockKeyError` for values that cannot form a
 * safe key.
 * @throws {LockKeyError} if the template has a mistake, if a name cannot be bound, or if Nest's decorators give one
 * name to two parameters.
 */
export function bindTemplate(
  template: string,
  target: object,
  propertyKey: string | symbol,
  method: AnyMethod,
): RenderResource {
  const parameters = {
    given: [lockParams(target, propertyKey), routeNames(target, propertyKey)],
    source: sourceParameters(target, propertyKey, method),
    filledLater: currentLockIndexes(target, propertyKey),
  };
  return bindNames(template, describeMethod(target, propertyKey), parameters, LOCKED);
}

function routeNames(target: object, propertyKey: string | symbol): Names {
  const names = new Map<string, number | string>();
  // Inherited names also count, because Nest resolves the arguments of an overriding method with them.
  const metadata: unknown = Reflect.getMetadata(ROUTE_ARGS_METADATA, target.constructor, propertyKey);
  for (const [key, argument] of Object.entries(metadata ?? {})) {
    const { data, index } = argument as { data?: unknown; index: number };
    if (key.includes(CUSTOM_ROUTE_ARGS_METADATA) || !isParameterName(data)) continue;
    names.set(data, names.has(data) && names.get(data) !== index ? twice(data) : index);
  }
  return names;
}

/** Returns the end of an error about a name that two parameters have. */
function twice(name: string): string {
  return (
    `means two parameters: more than one of Nest's decorators is named '${name}'. ` +
    `Put @LockParam('${name}') on the one that is meant.`
  );
}

/**
 * Returns the parameters as written in the class, because another decorator may have replaced the method's function.
 * Those of the function if the class is not written as one, or if the method's name is a symbol.
 */
function sourceParameters(target: object, propertyKey: string | symbol, method: AnyMethod): ParameterList | undefined {
  const written = sourceOf(target.constructor);
  const isInClass = typeof propertyKey === 'string' && /^class\b/.test(written);
  return isInClass ? methodParameters(written, propertyKey) : functionParameters(sourceOf(method));
}

function sourceOf(code: Function): string {
  return Function.prototype.toString.call(code);
}
