import { HttpException } from '@nestjs/common';
import { isOfOwnClass, LockError } from '../core/errors.js';
import { bodyOf, type ErrorResponses, type LockErrorResponse } from './error-responses.js';

/**
 * A lock error as the filters of HTTP handlers get it: an exception of Nest with the status and the message for
 * clients. It is an instance of the same classes of lock errors, and has their fields. Its `cause` is the error itself.
 */
class LockHttpException extends HttpException {
  constructor(error: LockError, response: LockErrorResponse) {
    super(bodyOf(error, response), response.status);
    this.inherit(error);
    const { message } = response;
    this.define({ message, cause: error, stack: `${error.name}: ${message}` });
  }

  /** Copies the fields and the brands. Not enumerable, because filters send exceptions of Nest as JSON. */
  private inherit(error: LockError): void {
    const chain: object[] = [];
    for (let each: object = error; each !== Error.prototype; each = Object.getPrototypeOf(each) as object) {
      chain.push(each);
    }
    for (const each of chain.toReversed()) {
      const { constructor: _constructor, ...properties } = Object.getOwnPropertyDescriptors(each);
      for (const key of Reflect.ownKeys(properties)) {
        const property = properties[key as keyof typeof properties];
        Object.defineProperty(this, key, { ...property, enumerable: false, configurable: true });
      }
    }
  }

  private define(properties: Readonly<Record<string, unknown>>): void {
    for (const [key, value] of Object.entries(properties)) {
      Object.defineProperty(this, key, { value, enumerable: false, configurable: true, writable: true });
    }
  }
}

/**
 * Returns what the filters of an HTTP handler get for an error. Mistakes of the program and errors that are not of this
 * library stay as they are: they are a 500, and filters that report errors should report them.
 */
export function toHttpException(error: unknown, responses: ErrorResponses): unknown {
  // A subclass of a program stays what its filters look for.
  if (!(error instanceof LockError) || !responses.filter || !isOfOwnClass(error)) return error;
  const response = responses.responseTo(error);
  return response.status === 500 ? error : new LockHttpException(error, response);
}
