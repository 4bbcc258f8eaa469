/** The keys that the owners of several locks still have. Each of their locks is released alone. */
export class OwnersOfSeveral {
  private readonly keysOf = new Map<string, Set<string>>();

  onGranted(owner: string, keys: readonly string[]): void {
    if (keys.length > 1) this.keysOf.set(owner, new Set(keys));
  }

  /** Forgets that the owner has these keys. Returns whether it has no others. */
  onReleased(owner: string, keys: readonly string[]): boolean {
    const rest = this.keysOf.size === 0 ? undefined : this.keysOf.get(owner);
    if (rest === undefined) return true;
    for (const key of keys) rest.delete(key);
    return rest.size === 0 && this.keysOf.delete(owner);
  }
}
