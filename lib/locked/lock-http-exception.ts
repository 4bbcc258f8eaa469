import { HttpException } from '@nestjs/common';
import { isOfOwnClass, LockError } from '../core/errors.js';
import { bodyOf, type ErrorResponses, type LockErrorResponse } from './error-responses.js';

/**
 * A lock error as the filters of HTTP handlers get it: a Nest exception with the status and the message for clients. It
 * is an instance of the same lock error classes, and has their fields. Its `cause` is the original error.
 */
class LockHttpException extends HttpException {
  constructor(error: LockError, response: LockErrorResponse) {
    super(bodyOf(error, response), response.status);
    this.inherit(error);
    const { message } = response;
    this.define({ message, cause: error, stack: `${error.name}: ${message}` });
  }

  /** Copies the fields and the brands. Not enumerable, because filters send Nest exceptions as JSON. */
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
 * Returns what the filters of an HTTP handler get for an error. Mistakes in the program and errors from outside this
 * library stay as they are. They are a 500, and filters that report errors should report them.
 */
export function toHttpException(error: unknown, responses: ErrorResponses): unknown {
  // A program's own subclass stays as it is, because its filters may look for it.
  if (!(error instanceof LockError) || !responses.filter || !isOfOwnClass(error)) return error;
  const response = responses.responseTo(error);
  return response.status === 500 ? error : new LockHttpException(error, response);
}
