import { functionOf } from './locked-method.js';
import {
  EXCEPTION_FILTERS_METADATA,
  INTERCEPTORS_METADATA,
  METHOD_METADATA,
  PATH_METADATA,
  ROUTE_ARGS_METADATA,
} from '@nestjs/common/constants.js';
import type { FoundMethod } from './providers.js';

// Keys of packages that an application may not have.
const PATTERN_METADATA = 'microservices:pattern';
const MESSAGE_MAPPING_METADATA = 'websockets:message_mapping';
const RESOLVER_TYPE_METADATA = 'graphql:resolver_type';
const FIELD_RESOLVER_METADATA = 'graphql:resolve_property';

/** What Nest runs interceptors for. By default, Nest calls field resolvers without interceptors. */
const OPERATIONS: ReadonlySet<unknown> = new Set(['Query', 'Mutation', 'Subscription']);

/** Names of methods that Nest awaits because of an interface, without a decorator: guards and pipes. */
const AWAITED_NAMES: ReadonlySet<unknown> = new Set(['canActivate', 'transform']);

/** What `@Locked` itself puts on a function. */
const SERVED: ReadonlySet<unknown> = new Set([INTERCEPTORS_METADATA, EXCEPTION_FILTERS_METADATA]);

/** Returns whether a method is a GraphQL field resolver, which Nest calls without filters by default. */
export function isFieldResolver(prototype: object, propertyKey: string | symbol): boolean {
  const method = functionOf(prototype, propertyKey);
  return method !== undefined && Reflect.getMetadata(FIELD_RESOLVER_METADATA, method) === true;
}

/** Returns whether interceptors run around a method, so that its lock is held until the response is complete. */
export function isHandler(found: FoundMethod, isController: boolean): boolean {
  const outermost = functionOf(found.effective, found.key);
  if (outermost === undefined) return false;
  const has = (key: string): boolean => Reflect.hasMetadata(key, outermost);
  if (isController && ((has(PATH_METADATA) && has(METHOD_METADATA)) || has(PATTERN_METADATA))) return true;
  return has(MESSAGE_MAPPING_METADATA) || OPERATIONS.has(Reflect.getMetadata(RESOLVER_TYPE_METADATA, outermost));
}

/**
 * Returns whether a framework may call a method and await its result: a handler, a job, a listener, a guard or a pipe.
 * Every decorator that has left metadata on the method counts.
 */
export function mayBeAwaitedByFramework({ key, method, owner, effective }: FoundMethod): boolean {
  if (AWAITED_NAMES.has(key)) return true;
  const functions = [method.original, functionOf(owner, key), functionOf(effective, key)];
  if (functions.some((each) => each !== undefined && Reflect.getMetadataKeys(each).some(isForeign))) return true;
  return [owner, effective].some(
    (prototype) =>
      Reflect.hasMetadata(ROUTE_ARGS_METADATA, prototype.constructor, key) ||
      Reflect.getMetadataKeys(prototype, key).some(isForeign),
  );
}

/** Returns whether another decorator has put this metadata on a method. */
function isForeign(key: unknown): boolean {
  const text = typeof key === 'symbol' ? (key.description ?? '') : String(key);
  return !SERVED.has(key) && !/^(?:design|nestjs-redis-lock):/.test(text);
}
