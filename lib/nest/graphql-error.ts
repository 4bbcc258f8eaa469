import type { LockError } from '../common/errors.js';
import { type LockErrorResponse, retryAfterOf } from './error-responses.js';

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
  const { status, code, message, retryAfterMs } = response;
  const retryAfter = retryAfterOf(response);
  const headers = new HeaderMap(retryAfter === undefined ? [] : [['retry-after', retryAfter]]);
  const extensions = {
    code,
    status,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    // Apollo removes this and uses it for the HTTP response.
    http: { status, headers },
  };
  const properties = { message, stack: `${error.name}: ${message}`, cause: error, extensions, statusCode: status };
  // Filters, plugins and error trackers still find the class and the fields.
  return Object.create(error, Object.getOwnPropertyDescriptors(properties)) as LockError;
}
