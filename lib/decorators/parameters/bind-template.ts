import 'reflect-metadata';
import { CUSTOM_ROUTE_ARGS_METADATA, ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import { LockKeyError } from '../../core/errors.js';
import { compileTemplate, isParameterName, parseTemplate, type RenderResource } from '../../core/keys/key-template.js';
import { currentLockIndexes } from '../current-lock.decorator.js';
import { classOf, describeMethod } from '../describe-method.js';
import { lockParams } from '../lock-param.decorator.js';
import { functionParameters, methodParameters, type ParameterList } from './source-parameters.js';

type AnyMethod = (...args: never[]) => unknown;

const SCALARS: ReadonlySet<unknown> = new Set([String, Number, Boolean, BigInt]);

/** One parameter per name; undefined where a name means several. */
type Names = ReadonlyMap<string, number | undefined>;

/**
 * Prepares a template for one method: takes it apart and binds its names to parameters, once and for all, in this order:
 * `@LockParam('id')`; Nest's own route decorators (`@Param('id')`; custom ones do not bind); the parameter's name in the
 * source. A number, `<0>`, is the parameter's index.
 *
 * @param target as a method decorator gets it: the prototype, or the class itself for a static method.
 * @param method what stands under `propertyKey` now, maybe wrapped by another decorator.
 * @throws {LockKeyError} at once, for a template with a mistake, a name that cannot be bound, and a name that Nest's
 * decorators give to two parameters. What is returned throws it for values that make no safe key.
 */
export function bindTemplate(
  template: string,
  target: object,
  propertyKey: string | symbol,
  method: AnyMethod,
): RenderResource {
  const where = describeMethod(target, propertyKey);
  const parsed = parseTemplate(template, where);
  const bindings = new Map<string, number>();
  // Only asked for names: a template without any is not to depend on what the source looks like.
  let sources: readonly Names[] | undefined;
  for (const { parameter, text } of parsed.placeholders) {
    if (typeof parameter === 'number') continue;
    sources ??= namesOf(target, propertyKey, method);
    bindings.set(parameter, bind(parameter, sources, `${where}: ${text} in '${template}'`));
  }
  return compileTemplate(parsed, bindings, where, scalarsOf(target, propertyKey));
}

/** The parameters that TypeScript says are one string, number or boolean; none where it was not asked to say that. */
function scalarsOf(target: object, propertyKey: string | symbol): ReadonlySet<number> {
  const types = (Reflect.getMetadata('design:paramtypes', target, propertyKey) ?? []) as readonly unknown[];
  return new Set(types.flatMap((type, index) => (SCALARS.has(type) ? [index] : [])));
}

function bind(name: string, sources: readonly Names[], placeholder: string): number {
  for (const names of sources) {
    if (!names.has(name)) continue;
    const index = names.get(name);
    if (index !== undefined) return index;
    throw new LockKeyError(
      `${placeholder} means two parameters: more than one of Nest's decorators is named '${name}'. ` +
        `Put @LockParam('${name}') on the one that is meant.`,
    );
  }
  throw new LockKeyError(`${placeholder} names no parameter. ${adviceFor(name, sources)}`);
}

function adviceFor(name: string, sources: readonly Names[]): string {
  const known = [...new Set(sources.flatMap((names) => [...names.keys()]))];
  const written = [...(sources.at(-1)?.keys() ?? [])];
  const minified = written.length > 0 && written.every((parameter) => parameter.length === 1);
  return [
    known.length === 0 ? 'No parameter has a name that can be bound.' : `Names that can be bound: ${known.join(', ')}.`,
    minified
      ? 'All parameters have one letter: this looks like minified code, and minifiers rename parameters.'
      : 'If the code was minified: minifiers rename parameters.',
    `Put @LockParam('${name}') on the parameter, or give @Locked a function of the arguments, (id) => \`goods:\${id}\`.`,
  ].join(' ');
}

/** Names and their parameters, in the order in which they count. */
function namesOf(target: object, propertyKey: string | symbol, method: AnyMethod): readonly Names[] {
  const sources = [
    lockParams(target, propertyKey),
    routeNames(target, propertyKey),
    sourceNames(target, propertyKey, method),
  ];
  const filledLater = new Set<number | undefined>(currentLockIndexes(target, propertyKey));
  return sources.map((names) => new Map([...names].filter(([, index]) => !filledLater.has(index))));
}

function routeNames(target: object, propertyKey: string | symbol): Names {
  const names = new Map<string, number | undefined>();
  // Nest keeps those of static methods on `Function` itself, mixed with every other class's.
  const owner = typeof target === 'function' ? undefined : classOf(target);
  // Inherited ones too: Nest resolves the arguments of an overriding method by them.
  const metadata: unknown = owner && Reflect.getMetadata(ROUTE_ARGS_METADATA, owner, propertyKey);
  for (const [key, argument] of Object.entries(metadata ?? {})) {
    const { data, index } = argument as { data?: unknown; index: number };
    if (key.includes(CUSTOM_ROUTE_ARGS_METADATA) || !isParameterName(data)) continue;
    names.set(data, names.has(data) && names.get(data) !== index ? undefined : index);
  }
  return names;
}

function sourceNames(target: object, propertyKey: string | symbol, method: AnyMethod): Names {
  const parameters = sourceParameters(target, propertyKey, method) ?? [];
  return new Map(parameters.flatMap((name, index) => (name === undefined ? [] : [[name, index] as const])));
}

/**
 * The parameter list the class was written with, which is not the function's own where another decorator has put its own
 * function in place. What the class does not tell (a computed name, a method added later) the function has to.
 */
function sourceParameters(target: object, propertyKey: string | symbol, method: AnyMethod): ParameterList | undefined {
  const owner = classOf(target);
  const written =
    owner && typeof propertyKey === 'string'
      ? methodParameters(sourceOf(owner), propertyKey, typeof target === 'function')
      : undefined;
  return written ?? functionParameters(sourceOf(method));
}

function sourceOf(code: AnyMethod | (abstract new (...args: never[]) => unknown)): string {
  return Function.prototype.toString.call(code);
}
