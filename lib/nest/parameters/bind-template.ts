import 'reflect-metadata';
import { CUSTOM_ROUTE_ARGS_METADATA, ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import { bindTemplate as bindNames, type Names, type TemplateUser } from '../../keys/bind-template.js';
import { isParameterName, type RenderResource } from '../../keys/key-template.js';
import {
  functionParameters,
  hasComputedMethods,
  methodParameters,
  type ParameterList,
  parseClass,
} from '../../keys/source-parameters.js';
import { currentLockIndexes } from './current-lock.js';
import { classOf, describeMethod } from '../method-below.js';
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
 * @param target the prototype, or the class itself for a static method, as a method decorator gets it.
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
  // Nest keeps the names for static methods on `Function` itself, mixed with those of every other class.
  const owner = typeof target === 'function' ? undefined : classOf(target);
  // Inherited names also count, because Nest resolves the arguments of an overriding method with them.
  const metadata: unknown = owner && Reflect.getMetadata(ROUTE_ARGS_METADATA, owner, propertyKey);
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
 * Returns the parameters as written in the class, because another decorator may have replaced the method's function. If
 * the class has no method of that name (a method added later, or a computed name), returns those of the function.
 * Undefined for a wrapper in place of a method with a computed name.
 */
function sourceParameters(target: object, propertyKey: string | symbol, method: AnyMethod): ParameterList | undefined {
  const owner = classOf(target);
  const written = owner === undefined ? '' : sourceOf(owner);
  if (typeof propertyKey === 'string' && /^class\b/.test(written)) {
    const parsed = parseClass(written);
    // The function may be another decorator's wrapper, whose parameters have other names.
    if (parsed === undefined) return undefined;
    const parameters = methodParameters(parsed, propertyKey, typeof target === 'function');
    if (parameters !== undefined) return parameters;
    if (hasComputedMethods(parsed) && !written.includes(sourceOf(method))) return undefined;
  }
  return functionParameters(sourceOf(method));
}

function sourceOf(code: AnyMethod | (abstract new (...args: never[]) => unknown)): string {
  return Function.prototype.toString.call(code);
}
