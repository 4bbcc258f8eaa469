import 'reflect-metadata';
import { LockKeyError } from '../../common/errors.js';
import { formatValue, shortened } from '../../common/format-value.js';
import { isParameterName } from '../../keys/key-template.js';
import { describeMethod } from '../method-below.js';

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
