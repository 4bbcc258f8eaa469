import { LockKeyError } from '../common/errors.js';
import { compileTemplate, type KeyTemplate, parseTemplate, type RenderResource } from './key-template.js';
import { isList, readList } from './key-values.js';
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
  const names = namesOf(parameters);
  const parsed = parseTemplate(template, where);
  const indexes = parsed.placeholders.map(({ parameter, text }) => {
    const shown = `${where}: ${text} in '${parsed.shown}'`;
    const index = typeof parameter === 'number' ? parameter : indexOf(parameter, names, shown, user);
    // The function itself fills in a default value, so its caller does not see it, and the key would have none.
    if (parameters.source?.defaults.has(index) === true)
      throw new LockKeyError(
        `${shown} names a parameter with a default value, which ${user.name} does not see. In place of the template, ` +
          `give ${user.name} a function that has the same parameters with the same defaults, and returns the resource.`,
      );
    return index;
  });
  refuseLookAlike(parsed, indexes, names, where);
  return compileTemplate(parsed, indexes, where);
}

/** What calls lock: a template, a list of templates, or a function that returns the resource for the arguments. */
export type ResourceOption = string | readonly string[] | ((this: unknown, ...args: never[]) => unknown);

/**
 * Returns a function that makes the resource of one call from its `this` and its arguments.
 *
 * @param where the function for errors, `GoodsController.buy`.
 * @param bind binds one template.
 * @throws {LockKeyError} if a list of templates is empty.
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

/** Whether templates name several resources. What a function returns is known at the call. */
export function namesSeveral(resource: ResourceOption): boolean {
  return isList(resource) || (typeof resource === 'string' && resource.includes('<...'));
}

/** Returns what is known of a function's parameters from its own source. */
export function parametersOf(code: (...args: never[]) => unknown): KnownParameters {
  return { source: functionParameters(Function.prototype.toString.call(code)) };
}

/** Returns the names that can be bound, those that take precedence first. */
function namesOf({ given = [], source, filledLater = [] }: KnownParameters): Names {
  const later = new Set<number | string>(filledLater);
  const written = (source?.names ?? []).flatMap((name, index) => (name === undefined ? [] : [[name, index] as const]));
  const names = new Map<string, number | string>();
  for (const [name, index] of [...given, written].flatMap((each) => [...each])) {
    if (!names.has(name) && !later.has(index)) names.set(name, index);
  }
  return names;
}

/** What other libraries write for a placeholder: `{id}`, `#{id}`, and `:id` behind a colon or a slash. */
const LOOK_ALIKE = /#?\{([^{}]+)\}|(?<=[:/]):([^:/{}]+)/g;

/** Refuses a template such as `goods:{id}` for a function with a parameter `id`: all its calls would share one lock. */
function refuseLookAlike({ literals, shown }: KeyTemplate, used: readonly number[], names: Names, where: string): void {
  // Each literal by itself, because braces around a placeholder are a hash tag.
  for (const literal of literals) {
    for (const [text, inBraces, afterColon] of literal.matchAll(LOOK_ALIKE)) {
      const path = inBraces ?? afterColon;
      const index = names.get(path.split('.')[0]);
      if (typeof index !== 'number' || used.includes(index)) continue;
      throw new LockKeyError(
        `${where}: '${text}' in '${shown}' is fixed text, so all calls would share one lock; write <${path}>.`,
      );
    }
  }
}

function indexOf(name: string, names: Names, shown: string, { name: user, naming }: TemplateUser): number {
  const found = names.get(name);
  if (typeof found === 'number') return found;
  if (found !== undefined) throw new LockKeyError(`${shown} ${found}`);
  const known = [...names.keys()].join(', ');
  const bindable = known === '' ? 'No parameter has a name that can be bound.' : `Names that can be bound: ${known}.`;
  const advice = naming === undefined ? 'Write' : `${naming(name)}, write`;
  throw new LockKeyError(
    `${shown} names no parameter. ${bindable} Minifiers rename parameters. ` +
      `${advice} its index, <0>, or give ${user} a function of the arguments that returns the resource.`,
  );
}
