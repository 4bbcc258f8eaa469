import { LockError } from '../core/errors.js';
import { type ErrorResponses, type LockErrorResponse, retryAfterOf } from './error-responses.js';

/** HTTP headers as Apollo takes them from an error. Mercurius sends them as JSON. */
class HeaderMap extends Map<string, string> {
  toJSON(): object {
    return Object.fromEntries(this);
  }
}

/**
 * Returns the error that a GraphQL server sends: the same error with the message for clients, with `extensions` and,
 * for Mercurius, `statusCode`. Its `cause` is the original error.
 */
export function toGraphqlError(error: LockError, response: LockErrorResponse): LockError {
  const { status, message, retryAfterMs } = response;
  const retryAfter = retryAfterOf(response);
  const headers = new HeaderMap(retryAfter === undefined ? [] : [['retry-after', retryAfter]]);
  const extensions = {
    code: error.code,
    status,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    // Apollo removes this and uses it for the HTTP response.
    http: { status, headers },
  };
  const properties = { message, stack: `${error.name}: ${message}`, cause: error, extensions, statusCode: status };
  // Filters, plugins and error trackers still find the class and the fields.
  return Object.create(error, Object.getOwnPropertyDescriptors(properties)) as LockError;
}

/**
 * Returns the error of a field resolver for the client. By default, Nest calls field resolvers without filters, and
 * this code cannot see whether filters follow.
 */
export function toFieldError(error: unknown, responses: ErrorResponses): unknown {
  return error instanceof LockError ? toGraphqlError(error, responses.loggedResponseTo(error)) : error;
}
