import { formatName, formatValue, shortened } from '../core/format-value.js';

/** Returns a method's name for messages: `GoodsController.buy`. Without a key, the constructor's. */
export function describeMethod(target: object, propertyKey: string | symbol | undefined): string {
  return `${className(target)}.${methodName(propertyKey)}`;
}

/** Returns the class of a decorator's target. The target is a prototype, or the class for a static method. */
export function classOf(target: object): (abstract new (...args: never[]) => unknown) | undefined {
  const found: unknown = typeof target === 'function' ? target : target.constructor;
  return typeof found === 'function' ? (found as abstract new (...args: never[]) => unknown) : undefined;
}

function className(target: object): string {
  try {
    const name: unknown = classOf(target)?.name;
    if (typeof name === 'string' && name !== '') return shortened(name);
  } catch {
    // Decorators of another kind get other targets. The error that follows says so.
  }
  return '(anonymous class)';
}

function methodName(propertyKey: unknown): string {
  if (propertyKey === undefined) return 'constructor';
  if (typeof propertyKey === 'symbol') return shortened(String(propertyKey));
  return typeof propertyKey === 'string' ? formatName(propertyKey) : formatValue(propertyKey);
}
