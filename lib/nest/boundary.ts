import type { ArgumentsHost } from '@nestjs/common';

/** The kinds of callers for which an error has a response of its own. */
export type Boundary = 'http' | 'rpc' | 'grpc' | 'ws' | 'graphql';

/**
 * Returns who waits for the result of a handler. Undefined for everything else, such as a handler that another package
 * calls through Nest's `ExternalContextCreator`: its caller expects the plain error.
 *
 * Looks at the arguments, because the name of a context is only what the calling package says. Its default is `http`.
 */
export function boundaryOf(host: ArgumentsHost): Boundary | undefined {
  const [first, second, third, fourth] = host.getArgs<unknown[]>();
  switch (host.getType<string>()) {
    case 'http':
      return isHttpResponse(second) ? 'http' : undefined;
    case 'graphql':
      return has(fourth, 'fieldName') ? 'graphql' : undefined;
    case 'ws':
      return can(first, 'emit') || can(first, 'send') ? 'ws' : undefined;
    case 'rpc':
      if (can(third, 'sendMetadata')) return 'grpc';
      return can(second, 'getArgByIndex') ? 'rpc' : undefined;
    default:
      return undefined;
  }
}

/** Recognizes the responses of Node, Express and Fastify, and those of similar adapters. */
function isHttpResponse(value: unknown): boolean {
  return can(value, 'setHeader') || can(value, 'header');
}

function has(value: unknown, property: string): boolean {
  return typeof value === 'object' && value !== null && property in value;
}

function can(value: unknown, method: string): boolean {
  return has(value, method) && typeof (value as Record<string, unknown>)[method] === 'function';
}
