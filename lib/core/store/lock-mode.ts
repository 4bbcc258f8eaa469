/**
 * With whom a lock is shared: with nobody, with all who ask for it shared, or, a number, with all who ask for one of so many
 * permits, of which nobody gets two.
 */
export type LockMode = 'exclusive' | 'shared' | number;

/** What kinds of modes there are; a number of permits is `counted`. */
export type LockModeKind = 'exclusive' | 'shared' | 'permits';

/** The modes that a store can lock in, by what it declares. */
export function modesOf({
  modes = ['exclusive'],
}: {
  readonly modes?: readonly LockModeKind[];
}): readonly LockModeKind[] {
  return modes;
}

/** The mode that options ask for; alone, if they do not say. */
export function modeOf(options: { readonly mode?: 'exclusive' | 'shared'; readonly permits?: number }): LockMode {
  return options.permits ?? options.mode ?? 'exclusive';
}

/** The kind of a mode. */
export function kindOf(mode: LockMode): LockModeKind {
  return typeof mode === 'number' ? 'permits' : mode;
}
