/** Characters that have a meaning in a glob of Redis. */
const SPECIAL = /[*?[\]\\^]/g;

/** Returns the text as a glob that matches nothing else. */
export function escapeGlob(text: string): string {
  return text.replace(SPECIAL, '\\$&');
}
