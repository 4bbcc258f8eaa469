import { decoratedMethodOf, functionOf, isOwnWrapper } from './locked-method.js';
import type { FoundMethod } from './providers.js';

/** Returns a finding if another decorator is above `@Locked` and has replaced the method's function. */
export function findReplacedMethod({ key, method, owner }: FoundMethod): string | undefined {
  const outermost = functionOf(owner, key);
  // Accessors also count, because nothing is known about the function that they return.
  if (outermost !== undefined && isOwnWrapper(outermost)) return undefined;
  return (
    `${method.name}: another decorator is above @Locked and replaces the method. The lock is released before ` +
    `that decorator ends, for example before its transaction commits. Put @Locked above it, or @LockScope() above ` +
    `both. The option checks: 'off' turns all checks off.`
  );
}

/** Returns a finding if interceptors cannot recognize the `@Locked` method by a handler's function. */
export function findUnknownHandler({ key, method, owner }: FoundMethod): string | undefined {
  const outermost = functionOf(owner, key);
  if (outermost === undefined || decoratedMethodOf(outermost)?.locked === method) return undefined;
  return (
    `${method.name}: a decorator above @Locked replaced the handler with a function that other methods also have, ` +
    `so the lock would end before the response is complete. Put @Locked above that decorator.`
  );
}
