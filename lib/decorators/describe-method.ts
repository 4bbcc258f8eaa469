/** Returns a method's name for messages: `GoodsController.buy`. Without a key, the constructor's. */
export function describeMethod(target: object, propertyKey: string | symbol | undefined): string {
  const className: unknown = classOf(target)?.name;
  const known = typeof className === 'string' && className !== '' ? className : '(anonymous class)';
  return `${known}.${String(propertyKey ?? 'constructor')}`;
}

/** Returns the class of a decorator's target. The target is a prototype, or the class for a static method. */
export function classOf(target: object): (abstract new (...args: never[]) => unknown) | undefined {
  const found: unknown = typeof target === 'function' ? target : target.constructor;
  return typeof found === 'function' ? (found as abstract new (...args: never[]) => unknown) : undefined;
}
