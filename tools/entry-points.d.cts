/** Returns the name of the files in dist/: `quorum` for `nestjs-redis-lock/quorum`, `index` for the root. */
export function fileNameOf(specifier: string): string;

/** By specifier, `nestjs-redis-lock/quorum`: the path from the root, `lib/stores/quorum/index.ts`. */
export const modules: Readonly<Record<string, string>>;
