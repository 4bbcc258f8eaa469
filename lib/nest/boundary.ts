import type { ArgumentsHost } from '@nestjs/common';

/** The kinds of callers for which an error has a response of its own. */
export type Boundary = 'http' | 'rpc' | 'grpc' | 'ws' | 'graphql';

/**
 * Returns who waits for the result of a handler. Undefined for everything else, such as a handler that another package
 * calls through Nest's `ExternalContextCreator`: its caller expects the plain error.
 */
export function boundaryOf(host: ArgumentsHost): Boundary | undefined {
  const [, second, third] = host.getArgs<unknown[]>();
  const type = host.getType<string>();
  // A package that names no context gets `http`. The responses of Node, Express and Fastify have these methods.
  if (type === 'http') return can(second, 'setHeader') || can(second, 'header') ? type : undefined;
  if (type === 'rpc') return can(third, 'sendMetadata') ? 'grpc' : type;
  return type === 'ws' || type === 'graphql' ? type : undefined;
}

function can(value: unknown, method: string): boolean {
  return typeof (value as Readonly<Record<string, unknown>> | null | undefined)?.[method] === 'function';
}
