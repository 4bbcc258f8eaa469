import 'reflect-metadata';
import { CUSTOM_ROUTE_ARGS_METADATA, ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import { bindTemplate as bindNames, type Names, type TemplateUser } from '../../keys/bind-template.js';
import { isParameterName, type RenderResource } from '../../keys/key-template.js';
import { functionParameters, methodParameters, type ParameterList } from '../../keys/source-parameters.js';
import { currentLockIndexes } from './current-lock.js';
import { describeMethod } from '../method-below.js';
import { lockParams } from './lock-param.js';

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
