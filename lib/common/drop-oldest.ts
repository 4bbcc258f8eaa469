/** Drops the entry that was added first if there are more than `most`. Returns whether it did. */
export function dropOldest(entries: Map<string, unknown> | Set<string>, most: number): boolean {
  if (entries.size <= most) return false;
  const [oldest] = entries.keys();
  return entries.delete(oldest);
}
