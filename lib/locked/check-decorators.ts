import { formatName } from '../core/format-value.js';
import { decoratedMethodOf, functionOf, isOwnWrapper, lockedMethods } from './locked-method.js';
import type { FoundMethod } from './providers.js';

/** Returns a finding if another decorator is above `@Locked` and has replaced the method's function. */
export function findReplacedMethod({ key, method, owner }: FoundMethod): string | undefined {
  const outermost = functionOf(owner, key);
  // Accessors also count, because nothing is known about the function that they return.
  if (outermost !== undefined && isOwnWrapper(outermost)) return undefined;
  return (
    `${method.name}: another decorator is above @Locked and replaces the method. The lock is released before ` +
    `that decorator ends, for example before its transaction commits. Put @Locked above it, or @LockScope() above ` +
    `both. The option checks: { decoratorOrder: 'off' } turns this check off.`
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

/** Returns a finding if a class overrides a `@Locked` method and the override takes no lock. */
export function findUnlockedOverride({ key, method, owner, effective }: FoundMethod): string | undefined {
  if (effective === owner || lockedMethods.of(effective).has(key)) return undefined;
  const override = functionOf(effective, key);
  if (override !== undefined && callsSuper(override, key)) return undefined;
  return (
    `${classNameOf(effective)}.${formatName(String(key))} overrides ${method.name}, which is @Locked, and has no ` +
    `@Locked itself: its calls take no lock. Put @Locked above it, or let it call the method through super. ` +
    `The option checks: { unlockedOverride: 'off' } turns this check off.`
  );
}

/** Returns whether a method calls the method that it overrides. That call runs under the lock. */
function callsSuper(override: object, key: string | symbol): boolean {
  const source = Function.prototype.toString.call(override);
  return [...source.matchAll(/\bsuper\s*(?:\.\s*([\w$]+)|\[)/g)].some(([, name]) => name === undefined || name === key);
}

function classNameOf({ constructor }: object): string {
  return typeof constructor === 'function' && constructor.name !== '' ? constructor.name : '(anonymous class)';
}
