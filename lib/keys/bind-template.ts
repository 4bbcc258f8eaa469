import { LockKeyError } from '../common/errors.js';
import {
  compileTemplate,
  type KeyTemplate,
  parseTemplate,
  type Placeholder,
  type RenderResource,
} from './key-template.js';
import { isList, readList } from './read-list.js';
import { functionParameters, type ParameterList } from './source-parameters.js';

/** The index of the parameter of each name, or the end of an error for a name that stands for none. */
export type Names = ReadonlyMap<string, number | string>;

/** What is known of the parameters of one function. */
export interface KnownParameters {
  /** The names that were given to parameters besides the source, those that take precedence first. */
  readonly given?: readonly Names[];
  /** The parameters in the source. Undefined if it could not be parsed, or is native code. */
  readonly source: ParameterList | undefined;
  /** The indexes of the parameters that get their value after the key is made. */
  readonly filledLater?: readonly number[];
}

/** What uses a template, for errors. */
export interface TemplateUser {
  /** `@Locked`, or a function. */
  readonly name: string;
  /** Returns what to put on a parameter to name it. Undefined if nothing can be put there. */
  readonly naming?: (name: string) => string;
}

/**
 * Prepares a template for one function. Parses the template and binds its names to parameters, once. A number such as
 * `<0>` is the parameter's index.
 *
 * @param where the function for errors, `GoodsController.buy`.
 * @returns a function that renders the resource of one call. It throws `LockKeyError` for values that cannot form a
 * safe key.
 * @throws {LockKeyError} if the template has a mistake, if a name cannot be bound, or if it names a parameter with a
 * default value.
 */
export function bindTemplate(
  template: string,
  where: string,
  parameters: KnownParameters,
  user: TemplateUser,
): RenderResource {
  const names = new ParameterNames(parameters);
  const parsed = parseTemplate(template, where);
  const bindings = new Map<string, number>();
  const used = new Set<number>();
  for (const placeholder of parsed.placeholders) {
    const { parameter, text } = placeholder;
    const shown = `${where}: ${text} in '${parsed.shown}'`;
    const index = typeof parameter === 'number' ? parameter : indexOf(parameter, placeholder, names, shown, user);
    if (typeof parameter === 'string') bindings.set(parameter, index);
    used.add(index);
    refuseDefault(index, placeholder, names, shown, user);
  }
  refuseLookAlike(parsed, used, names, where);
  return compileTemplate(parsed, bindings, where);
}

/** What calls lock: a template, a list of templates, or a function that returns the resource for the arguments. */
export type ResourceOption = string | readonly string[] | ((this: unknown, ...args: never[]) => unknown);

/**
 * Returns a function that makes the resource of one call from its `this` and its arguments.
 *
 * @param where the function for errors, `GoodsController.buy`.
 * @param bind binds one template.
 * @throws {LockKeyError} if a list of templates is empty or cannot be read.
 */
export function resourceOfCall(
  resource: ResourceOption,
  where: string,
  { name }: TemplateUser,
  bind: (template: string) => RenderResource,
): (self: unknown, args: readonly unknown[]) => string | readonly string[] {
  if (typeof resource === 'function') {
    return (self, args) => Reflect.apply(resource, self, args) as string | readonly string[];
  }
  if (!isList(resource)) {
    const render = bind(resource);
    return (_self, args) => render(args);
  }
  const templates = readList(resource, () => `${where}: the list of ${name}`);
  const renders = templates.map((template) => bind(template as string));
  return (_self, args) => renders.flatMap((render) => render(args));
}

/** Returns what is known of a function's parameters from its own source. */
export function parametersOf(code: (...args: never[]) => unknown): KnownParameters {
  return { source: functionParameters(Function.prototype.toString.call(code)) };
}

/** A default value is filled in by the function itself, so its caller does not see it, and the key would have none. */
function refuseDefault(
  index: number,
  { path }: Placeholder,
  names: ParameterNames,
  shown: string,
  user: TemplateUser,
): void {
  for (let length = 0; length <= path.length; length += 1) {
    if (!names.defaults.has([index, ...path.slice(0, length)].join('.'))) continue;
    throw new LockKeyError(
      `${shown} names a parameter with a default value, which ${user.name} does not see. In place of the template, ` +
        `give ${user.name} a function that has the same parameters with the same defaults, and returns the resource.`,
    );
  }
}

/** What other libraries write for a placeholder: `{id}`, `#{id}`, and `:id` behind a colon or a slash. */
const LOOK_ALIKE = /#?\{([^{}]+)\}|(?<=[:/]):([^:/{}]+)/g;

/** Refuses a template such as `goods:{id}` for a function with a parameter `id`: all its calls would share one lock. */
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
      const index = names.find(path.split('.')[0]);
      if (typeof index !== 'number' || used.has(index)) continue;
      throw new LockKeyError(
        `${where}: '${text}' in '${shown}' is fixed text, so all calls would share one lock; write <${path}>.`,
      );
    }
  }
}

function indexOf(
  name: string,
  { path }: Placeholder,
  names: ParameterNames,
  shown: string,
  user: TemplateUser,
): number {
  const found = names.find(name);
  if (typeof found === 'number') return found;
  if (found !== undefined) throw new LockKeyError(`${shown} ${found}`);
  throw new LockKeyError(`${shown} names no parameter. ${adviceFor(name, path, names, user)}`);
}

function adviceFor(name: string, path: readonly string[], names: ParameterNames, user: TemplateUser): string {
  const destructured = names.destructured.get(name);
  if (destructured !== undefined) {
    const placeholder = [destructured, ...path].join('.');
    return `It is part of a destructured parameter: write <${placeholder}>.`;
  }
  const { known, written } = names;
  const minified = written.length > 0 && written.every((parameter) => parameter.length === 1);
  const naming = user.naming === undefined ? 'Write' : `${user.naming(name)}, write`;
  return [
    known.length === 0 ? 'No parameter has a name that can be bound.' : `Names that can be bound: ${known.join(', ')}.`,
    names.unreadable
      ? 'The source of the function cannot be parsed.'
      : minified
        ? 'All parameters have one letter: this looks like minified code, and minifiers rename parameters.'
        : 'If the code was minified: minifiers rename parameters.',
    ...(names.destructured.size === 0 ? [] : [describeParts(names.destructured)]),
    `${naming} its index, <0>, or give ${user.name} a function of the arguments that returns the resource.`,
  ].join(' ');
}

function describeParts(destructured: ReadonlyMap<string, string>): string {
  return `Parts of destructured parameters: ${[...destructured.values()].map((path) => `<${path}>`).join(', ')}.`;
}

/** The names of one function's parameters, without the parameters that are filled later. */
class ParameterNames {
  /** The paths of the parameters, and of parts of them, that have a default value in the source. */
  readonly defaults: ReadonlySet<string>;
  /** The path of each name in a destructured parameter. */
  readonly destructured: ReadonlyMap<string, string>;
  /** The names in the source. */
  readonly written: readonly string[];
  /** True if the source could not be parsed, or is native code. */
  readonly unreadable: boolean;
  private readonly kinds: readonly Names[];

  constructor({ given = [], source, filledLater = [] }: KnownParameters) {
    const later = new Set<number | string>(filledLater);
    const fillable = (names: Iterable<readonly [string, number | string]>): Names =>
      new Map([...names].filter(([, index]) => !later.has(index)));
    const written = fillable(
      (source?.names ?? []).flatMap((name, index) => (name === undefined ? [] : [[name, index] as const])),
    );
    this.kinds = [...given.map(fillable), written];
    this.written = [...written.keys()];
    this.unreadable = written.size === 0 && source === undefined;
    this.defaults = source?.defaults ?? new Set();
    const parts = [...(source?.destructured ?? [])];
    this.destructured = new Map(parts.filter(([, path]) => !later.has(Number(path.split('.')[0]))));
  }

  /** All names, those that take precedence first. */
  get known(): readonly string[] {
    return [...new Set(this.kinds.flatMap((names) => [...names.keys()]))];
  }

  /** Returns the index of the parameter with this name, or why the name stands for none. Undefined for another name. */
  find(name: string): number | string | undefined {
    return this.kinds.find((names) => names.has(name))?.get(name);
  }
}

/** Whether templates name several resources. What a function returns is known at the call. */
export function namesSeveral(resource: ResourceOption): boolean {
  return isList(resource) || (typeof resource === 'string' && resource.includes('<...'));
}
