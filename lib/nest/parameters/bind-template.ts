import 'reflect-metadata';
import { CUSTOM_ROUTE_ARGS_METADATA, ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import { LockKeyError } from '../../common/errors.js';
import {
  compileTemplate,
  isParameterName,
  type KeyTemplate,
  parseTemplate,
  type Placeholder,
  type RenderResource,
} from '../../keys/key-template.js';
import { currentLockIndexes } from './current-lock.js';
import { classOf, describeMethod } from '../method-below.js';
import { lockParams } from './lock-param.js';
import {
  functionParameters,
  hasComputedMethods,
  methodParameters,
  type ParameterList,
  parseClass,
} from './source-parameters.js';

type AnyMethod = (...args: never[]) => unknown;

/** The parameter of each name, `undefined` for a name that means several parameters. */
type Names = ReadonlyMap<string, number | undefined>;

/**
 * Prepares a template for one method. Parses the template and binds its names to parameters, once. A name is looked up
 * in this order: `@LockParam('id')`, Nest's own route decorators (`@Param('id')`, not custom ones), the parameter's
 * name in the source. A number such as `<0>` is the parameter's index.
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
  const where = describeMethod(target, propertyKey);
  const parsed = parseTemplate(template, where);
  const names = new ParameterNames(target, propertyKey, method);
  const bindings = new Map<string, number>();
  const used = new Set<number>();
  for (const placeholder of parsed.placeholders) {
    const { parameter, text } = placeholder;
    const shown = `${where}: ${text} in '${parsed.shown}'`;
    const index = typeof parameter === 'number' ? parameter : bind(parameter, placeholder, names, shown);
    if (typeof parameter === 'string') bindings.set(parameter, index);
    used.add(index);
    refuseDefault(index, placeholder, names, shown);
  }
  refuseLookAlike(parsed, used, names, where);
  return compileTemplate(parsed, bindings, where);
}

/** A default value is filled in by the method itself, so a decorator does not see it, and the key would have none. */
function refuseDefault(index: number, { path }: Placeholder, names: ParameterNames, shown: string): void {
  for (let length = 0; length <= path.length; length += 1) {
    if (!names.defaults.has([index, ...path.slice(0, length)].join('.'))) continue;
    throw new LockKeyError(
      `${shown} names a parameter with a default value, which @Locked does not see. In place of the template, give ` +
        '@Locked a function that has the parameters of the method with the same defaults, and returns the resource.',
    );
  }
}

/** What other libraries write for a placeholder: `{id}`, `#{id}`, and `:id` behind a colon or a slash. */
const LOOK_ALIKE = /#?\{([^{}]+)\}|(?<=[:/]):([^:/{}]+)/g;

/** Refuses a template such as `goods:{id}` above a method with a parameter `id`: all its calls would share one lock. */
function refuseLookAlike(
  { literals, shown }: KeyTemplate,
  used: ReadonlySet<number>,
  names: ParameterNames,
  where: string,
): void {
  // Each literal by itself, because braces around a placeholder are a hash tag.
  for (const literal of literals) {
    for (const [text, inBraces, afterColon] of literal.matchAll(LOOK_ALIKE)) {
      const path = inBraces ?? afterColon;
      const index = names.indexOf(path.split('.')[0]);
      if (index === undefined || used.has(index)) continue;
      throw new LockKeyError(
        `${where}: '${text}' in '${shown}' is fixed text, so all calls would share one lock; write <${path}>.`,
      );
    }
  }
}

function bind(name: string, { path }: Placeholder, names: ParameterNames, shown: string): number {
  for (const kind of LOOKUP_ORDER) {
    if (!names[kind].has(name)) continue;
    const index = names[kind].get(name);
    if (index !== undefined) return index;
    throw new LockKeyError(
      `${shown} means two parameters: more than one of Nest's decorators is named '${name}'. ` +
        `Put @LockParam('${name}') on the one that is meant.`,
    );
  }
  throw new LockKeyError(`${shown} names no parameter. ${adviceFor(name, path, names)}`);
}

function adviceFor(name: string, path: readonly string[], names: ParameterNames): string {
  const destructured = names.destructured.get(name);
  if (destructured !== undefined) {
    const placeholder = [destructured, ...path].join('.');
    return `It is part of a destructured parameter: write <${placeholder}>.`;
  }
  const known = [...new Set(LOOKUP_ORDER.flatMap((kind) => [...names[kind].keys()]))];
  const written = [...names.source.keys()];
  const minified = written.length > 0 && written.every((parameter) => parameter.length === 1);
  return [
    known.length === 0 ? 'No parameter has a name that can be bound.' : `Names that can be bound: ${known.join(', ')}.`,
    names.unreadable
      ? 'The source of the method cannot be parsed.'
      : minified
        ? 'All parameters have one letter: this looks like minified code, and minifiers rename parameters.'
        : 'If the code was minified: minifiers rename parameters.',
    ...(names.destructured.size === 0 ? [] : [describeParts(names.destructured)]),
    `Put @LockParam('${name}') or @Param('${name}') on the parameter, write its index, <0>, ` +
      'or give @Locked a function of the arguments that returns the resource.',
  ].join(' ');
}

function describeParts(destructured: ReadonlyMap<string, string>): string {
  return `Parts of destructured parameters: ${[...destructured.values()].map((path) => `<${path}>`).join(', ')}.`;
}

const LOOKUP_ORDER = ['lockParams', 'routeDecorators', 'source'] as const;

/** The names of one method's parameters, without the parameters that `@CurrentLock()` fills. */
class ParameterNames {
  readonly lockParams: Names;
  readonly routeDecorators: Names;
  readonly source: Names;
  /** The paths of the parameters, and of parts of them, that have a default value in the source. */
  readonly defaults: ReadonlySet<string>;
  private readonly filledLater: ReadonlySet<number | undefined>;
  private readonly parameters: ParameterList | undefined;

  constructor(target: object, propertyKey: string | symbol, method: AnyMethod) {
    this.filledLater = new Set(currentLockIndexes(target, propertyKey));
    this.lockParams = this.fillable(lockParams(target, propertyKey));
    this.routeDecorators = this.fillable(routeNames(target, propertyKey));
    this.parameters = sourceParameters(target, propertyKey, method);
    const { names = [], defaults = new Set<string>() } = this.parameters ?? {};
    this.source = this.fillable(names.flatMap((name, index) => (name === undefined ? [] : [[name, index] as const])));
    this.defaults = defaults;
  }

  /** Returns the index of the parameter with this name. Undefined if there is none, or if two have it. */
  indexOf(name: string): number | undefined {
    const kind = LOOKUP_ORDER.find((each) => this[each].has(name));
    return kind && this[kind].get(name);
  }

  /** The path of each name in a destructured parameter. */
  get destructured(): ReadonlyMap<string, string> {
    const isFillable = ([, path]: [string, string]): boolean => !this.filledLater.has(Number(path.split('.')[0]));
    return new Map([...(this.parameters?.destructured ?? [])].filter(isFillable));
  }

  /** True if the source could not be parsed, or is native code. */
  get unreadable(): boolean {
    return this.source.size === 0 && this.parameters === undefined;
  }

  private fillable(names: Iterable<readonly [string, number | undefined]>): Names {
    return new Map([...names].filter(([, index]) => !this.filledLater.has(index)));
  }
}

function routeNames(target: object, propertyKey: string | symbol): Names {
  const names = new Map<string, number | undefined>();
  // Nest keeps the names for static methods on `Function` itself, mixed with those of every other class.
  const owner = typeof target === 'function' ? undefined : classOf(target);
  // Inherited names also count, because Nest resolves the arguments of an overriding method with them.
  const metadata: unknown = owner && Reflect.getMetadata(ROUTE_ARGS_METADATA, owner, propertyKey);
  for (const [key, argument] of Object.entries(metadata ?? {})) {
    const { data, index } = argument as { data?: unknown; index: number };
    if (key.includes(CUSTOM_ROUTE_ARGS_METADATA) || !isParameterName(data)) continue;
    names.set(data, names.has(data) && names.get(data) !== index ? undefined : index);
  }
  return names;
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
