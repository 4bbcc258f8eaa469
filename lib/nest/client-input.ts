import type { ExecutionContext } from '@nestjs/common';
import { CUSTOM_ROUTE_ARGS_METADATA, ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import { LockKeyError } from '../common/errors.js';

/** Nest's number for a body, a message's payload and an argument of GraphQL. */
const BODY = 3;
/** Nest's numbers for what comes with an HTTP request: body, query, path, headers, host, cookies and signed cookies. */
const HTTP_KINDS: ReadonlySet<number> = new Set([BODY, 4, 5, 6, 10, 14, 15]);

/** Returns the error of a handler's key, marked if the value of its placeholder came with the request. */
export function markClientInput(error: unknown, context: ExecutionContext, key: string | symbol): unknown {
  if (!(error instanceof LockKeyError) || error.placeholder === undefined) return error;
  const { message, cause, placeholder } = error;
  if (!comesWithRequest(placeholder.index, context, key)) return error;
  return new LockKeyError(message, { cause, placeholder, byClient: true });
}

function comesWithRequest(index: number, context: ExecutionContext, key: string | symbol): boolean {
  const type = context.getType<string>();
  const metadata: unknown = Reflect.getMetadata(ROUTE_ARGS_METADATA, context.getClass(), key);
  const parameters = Object.entries((metadata ?? {}) as Readonly<Record<string, { readonly index: number }>>);
  // Without decorators, Nest passes the arguments of a message unchanged: (payload, context) and (socket, payload).
  if (parameters.length === 0) return index === { rpc: 0, ws: 1 }[type];
  const [kind] = parameters.find(([, parameter]) => parameter.index === index) ?? [];
  if (kind === undefined || kind.includes(CUSTOM_ROUTE_ARGS_METADATA)) return false;
  const number = Number.parseInt(kind, 10);
  return type === 'http' ? HTTP_KINDS.has(number) : number === BODY;
}
