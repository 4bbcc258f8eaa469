import 'reflect-metadata';
import { LockKeyError } from '../core/errors.js';
import { isParameterName } from '../core/keys/key-template.js';
import { describeMethod } from './describe-method.js';

const LOCK_PARAMS = 'nestjs-redis-lock:params';

/**
 * Names a parameter for the templates of `@Locked`, whatever it is called in the source and whatever other decorators it
 * has: `buy(@LockParam('id') goodsId: string)` under `@Locked('goods:<id>')`. It stands before every other name, and it
 * is the one that a minifier cannot change.
 *
 * @throws {LockKeyError} at decoration, for a name that no placeholder can write, and for two parameters of one name.
 *
 * @publicApi
 */
export function LockParam(name: string): ParameterDecorator {
  return (target, propertyKey, index) => {
    const where = describeMethod(target, propertyKey);
    if (propertyKey === undefined) throw new LockKeyError(`${where}: @LockParam() is for parameters of methods.`);
    if (!isParameterName(name)) {
      throw new LockKeyError(
        `${where}: @LockParam(${JSON.stringify(name)}) is no name that a placeholder can write. ` +
          `It starts with a letter and goes on with letters, digits, '_', '$' or '-'.`,
      );
    }
    const params = new Map(lockParams(target, propertyKey));
    if (params.has(name)) throw new LockKeyError(`${where}: two parameters are named @LockParam('${name}').`);
    Reflect.defineMetadata(LOCK_PARAMS, params.set(name, index), target, propertyKey);
  };
}

/**
 * The parameters of a method that `@LockParam` named. Those of an overridden method do not count: an override may take its
 * parameters in another order.
 */
export function lockParams(target: object, propertyKey: string | symbol): ReadonlyMap<string, number> {
  const params = Reflect.getOwnMetadata(LOCK_PARAMS, target, propertyKey) as ReadonlyMap<string, number> | undefined;
  return params ?? new Map();
}
