/**
 * How many callers may hold a lock at the same time. `exclusive`: one. `shared`: all callers that request it as shared.
 * A number: that many callers, each with one permit.
 */
export type LockMode = 'exclusive' | 'shared' | number;

/** The kind of a mode. `permits` stands for every number of permits. */
export type LockModeKind = 'exclusive' | 'shared' | 'permits';

/** Returns the mode that options select: `exclusive` by default. */
export function modeOf(options: { readonly mode?: 'exclusive' | 'shared'; readonly permits?: number }): LockMode {
  return options.permits ?? options.mode ?? 'exclusive';
}

/** Returns the kind of a mode. */
export function kindOf(mode: LockMode): LockModeKind {
  return typeof mode === 'number' ? 'permits' : mode;
}
