/**
 * Returns an object that has all members of `target`, with one replaced. Reads, writes and calls reach `target` itself,
 * so that its methods find their private fields.
 */
export function overrideMember<T extends object>(target: T, member: keyof T, replacement: unknown): T {
  const methods = new Map<unknown, unknown>();
  const onTarget = (method: object): unknown => {
    const known = methods.get(method);
    if (known !== undefined) return known;
    const made = (method as (...args: unknown[]) => unknown).bind(target);
    methods.set(method, made);
    return made;
  };
  return new Proxy(target, {
    get(_, name) {
      if (name === member) return replacement;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' && isMethod(target, name) ? onTarget(value) : value;
    },
    set: (_, name, value) => Reflect.set(target, name, value, target),
  });
}

/**
 * Returns whether the member is a method of the object's class. The object's own functions stay as they are, because an
 * injection token can be a class, and tokens are compared by identity.
 */
function isMethod(target: object, name: string | symbol): boolean {
  if (name === 'constructor' || Object.hasOwn(target, name)) return false;
  for (let owner = Object.getPrototypeOf(target); owner !== null; owner = Object.getPrototypeOf(owner)) {
    const descriptor = Object.getOwnPropertyDescriptor(owner, name);
    if (descriptor !== undefined) return 'value' in descriptor;
  }
  return false;
}
