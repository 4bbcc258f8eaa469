import type { ExecutionContext } from '@nestjs/common';
import { CUSTOM_ROUTE_ARGS_METADATA, ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import { LockKeyError, type LockKeyInput, type LockKeyPlaceholder } from '../core/errors.js';
import { isList, MAX_RESOURCES } from '../core/keys/read-list.js';

/** What a parameter of a handler got from the client, before pipes. */
interface Sent {
  readonly in: LockKeyInput['in'];
  /** The name in the decorator: `id` of `@Query('id')`. */
  readonly name: string | undefined;
  readonly value: unknown;
}

/**
 * Returns the error of a handler's key, with what the client sent if the client is to blame. It is to blame if the
 * placeholder reads a value that could not form a key before pipes. A value from a pipe or a custom decorator is the
 * program's.
 */
export function withClientInput(
  error: unknown,
  context: ExecutionContext,
  key: string | symbol,
  args: readonly unknown[],
): unknown {
  if (!(error instanceof LockKeyError) || error.placeholder === undefined) return error;
  const { message, cause, placeholder } = error;
  const handler = { owner: context.getClass(), key };
  const sent = sentFor(placeholder.index, context, handler, args);
  if (sent === undefined) return error;
  const problem = problemOf(sent.value, placeholder) ?? problemOfNumber(args[placeholder.index], placeholder);
  // A template with `<dto>` or `<ids>` is a mistake in the program if the parameter is not declared as a scalar.
  if (isObject(sent.value) && placeholder.path.length === 0 && !placeholder.spread && !isScalar(handler, placeholder)) {
    return error;
  }
  if (problem === undefined) return error;
  const names = sent.name === undefined ? placeholder.path : [sent.name, ...placeholder.path];
  const name = names.length === 0 ? undefined : names.join('.');
  return new LockKeyError(message, { cause, placeholder, input: { in: sent.in, name, problem } });
}

type Properties = Readonly<Record<string, unknown>> | null | undefined;

interface HttpRequest {
  readonly params?: Properties;
  readonly query?: Properties;
  readonly headers?: Properties;
  readonly hosts?: Properties;
  readonly body?: unknown;
}

/** Nest's decorators, by Nest's own numbers for them. */
const BODY = 3;
const HTTP_PARTS: Readonly<Record<number, LockKeyInput['in']>> = {
  [BODY]: 'body',
  4: 'query',
  5: 'path',
  6: 'header',
  10: 'host',
  14: 'cookie',
  15: 'cookie',
};

interface RouteArgument {
  readonly index: number;
  readonly data?: unknown;
  readonly pipes?: readonly unknown[];
}

/** Returns what the client sent for a parameter, `undefined` for a parameter that does not come from the client. */
function sentFor(
  index: number,
  context: ExecutionContext,
  handler: Handler,
  args: readonly unknown[],
): Sent | undefined {
  const parameters = Object.entries(routeArguments(handler));
  const [key, argument] = parameters.find(([, each]) => each.index === index) ?? [];
  const type = context.getType<string>();
  if (key === undefined || argument === undefined) {
    // Without decorators, Nest passes the arguments of a message unchanged: (payload, context) and (socket, payload).
    const isPayload = parameters.length === 0 && index === (type === 'rpc' ? 0 : 1);
    return isPayload && (type === 'rpc' || type === 'ws')
      ? { in: 'payload', name: undefined, value: payloadOf(context) }
      : undefined;
  }
  if (key.includes(CUSTOM_ROUTE_ARGS_METADATA)) return undefined;
  const kind = Number.parseInt(key, 10);
  const name = typeof argument.data === 'string' ? argument.data : undefined;
  if (type !== 'http') {
    if (kind !== BODY) return undefined;
    return { in: type === 'graphql' ? 'argument' : 'payload', name, value: propertyOf(payloadOf(context), name) };
  }
  const part = HTTP_PARTS[kind];
  if (part === undefined) return undefined;
  if (part !== 'cookie') return { in: part, name, value: propertyOf(...partOf(part, name, context)) };
  // Nest parses cookies again for each parameter.
  return argument.pipes?.length === 0 ? { in: part, name, value: args[index] } : undefined;
}

/** The class of a handler, and the name of its method. */
interface Handler {
  readonly owner: abstract new (...args: never[]) => unknown;
  readonly key: string | symbol;
}

function routeArguments({ owner, key }: Handler): Readonly<Record<string, RouteArgument>> {
  return (Reflect.getMetadata(ROUTE_ARGS_METADATA, owner, key) ?? {}) as Readonly<Record<string, RouteArgument>>;
}

const SCALARS: ReadonlySet<unknown> = new Set([String, Number, Boolean, BigInt]);

/** Returns whether the parameter is declared as one string, number or boolean. */
function isScalar({ owner, key }: Handler, { index }: LockKeyPlaceholder): boolean {
  const types = Reflect.getMetadata('design:paramtypes', owner.prototype as object, key) as unknown[] | undefined;
  return SCALARS.has(types?.[index]);
}

function payloadOf(context: ExecutionContext): unknown {
  const type = context.getType<string>();
  if (type === 'rpc') return context.switchToRpc().getData();
  return type === 'ws' ? context.switchToWs().getData() : context.getArgByIndex<unknown>(1);
}

function partOf(part: LockKeyInput['in'], name: string | undefined, context: ExecutionContext) {
  const { params, query, headers, hosts, body } = context.switchToHttp().getRequest<HttpRequest>();
  if (part === 'header') return [headers, name?.toLowerCase()] as const;
  return [part === 'path' ? params : part === 'query' ? query : part === 'host' ? hosts : body, name] as const;
}

function propertyOf(value: unknown, name: string | undefined): unknown {
  if (name === undefined) return value;
  return isObject(value) && Object.hasOwn(value, name) ? (value as Properties)?.[name] : undefined;
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** Returns why what the client sent cannot form a key. Undefined if it can, or if a pipe replaced the value. */
function problemOf(start: unknown, { path, spread }: LockKeyPlaceholder): string | undefined {
  let value = start;
  for (const property of path) {
    if (value === undefined || value === null) return 'is missing';
    // The path leads into the result of a pipe.
    if (!isObject(value)) return undefined;
    value = propertyOf(value, property);
  }
  return spread && isList(value) ? problemOfList(value) : problemOfValue(value);
}

function problemOfValue(value: unknown): string | undefined {
  if (value === undefined) return 'is missing';
  if (value === null) return 'is null';
  if (value === '') return 'is empty';
  if (isList(value)) return 'is an array; expected one value';
  return isObject(value) ? 'is an object; expected a string, a number or a boolean' : undefined;
}

function problemOfList(list: readonly unknown[]): string | undefined {
  if (list.length === 0) return 'is an empty array';
  if (list.length > MAX_RESOURCES) return `has ${list.length} elements; expected 1 to ${MAX_RESOURCES}`;
  const problem = list.map(problemOfValue).find((each) => each !== undefined);
  return problem === undefined ? undefined : `has an element that ${problem}`;
}

/** Returns the problem of a string that a pipe turned into `NaN`. */
function problemOfNumber(value: unknown, { path }: LockKeyPlaceholder): string | undefined {
  return path.length === 0 && Number.isNaN(value) ? 'is not a number' : undefined;
}
