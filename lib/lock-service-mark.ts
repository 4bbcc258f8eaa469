import { type Copy, otherVersion, THIS_COPY } from './core/context/copies.js';
import { VERSION } from './core/version.js';

// `Symbol.for` instead of `instanceof`, because an application may load this package twice.
const LOCK_SERVICE = Symbol.for('nestjs-redis-lock:lock-service');

/** Marks the class of lock services with the copy of this package that defines it. */
export function markService(prototype: object): void {
  Object.defineProperty(prototype, LOCK_SERVICE, { value: THIS_COPY });
}

/** Throws an error that names both copies if the value is a lock service of another version of this package. */
export function refuseOtherVersion(value: unknown): void {
  const copy = copyOfService(value);
  if (copy !== undefined && copy.version !== VERSION) throw otherVersion(copy);
}

/** Returns the copy of this package that made a lock service. Undefined for everything else. */
export function copyOfService(value: unknown): Copy | undefined {
  try {
    const copy = (value as Record<symbol, Partial<Copy> | null | undefined> | null | undefined)?.[LOCK_SERVICE];
    // Some mocks have every property.
    return typeof copy?.version === 'string' && typeof copy.path === 'string' ? (copy as Copy) : undefined;
  } catch {
    // A revoked Proxy, or a mock that throws.
    return undefined;
  }
}
