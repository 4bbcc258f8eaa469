import { inspect } from 'node:util';
import { HttpException } from '@nestjs/common';
import type { LockError } from '../common/errors.js';
import { bodyOf, type LockErrorResponse } from './error-responses.js';

/** What describes the original error, for logs. */
const NOT_FOR_CLIENTS: ReadonlySet<string | symbol> = new Set(['constructor', 'toJSON', inspect.custom]);

/**
 * A lock error as the filters of HTTP handlers get it: a Nest exception with the status and the message for clients. It
 * is an instance of the same lock error classes, and has their fields. Its `cause` is the original error.
 */
export class LockHttpException extends HttpException {
  constructor(error: LockError, response: LockErrorResponse) {
    super(bodyOf(response), response.status);
    const { message } = response;
    const sources: object[] = [{ message, cause: error, stack: `${error.name}: ${message}` }];
    for (let each: object = error; each !== Error.prototype; each = Object.getPrototypeOf(each) as object) {
      sources.push(each);
    }
    for (const each of sources.toReversed()) this.take(each);
  }

  /** Takes the fields and the brands of an object. Not enumerable, because filters send Nest exceptions as JSON. */
  private take(source: object): void {
    const properties = Object.getOwnPropertyDescriptors(source);
    for (const key of Reflect.ownKeys(properties)) {
      if (NOT_FOR_CLIENTS.has(key)) continue;
      const property = properties[key as keyof typeof properties];
      Object.defineProperty(this, key, { ...property, enumerable: false, configurable: true });
    }
  }
}
