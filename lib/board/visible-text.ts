/**
 * Characters that cannot be seen, or that change how others are shown: control and format characters, among them those
 * that change the direction of text, white space other than a space, and lone surrogates.
 */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{DI}\u2800]|[^\S ]/gu;
const LONGEST = 300;

/** Returns a string for a log line: the first 300 characters, with hidden ones written like `\u{202e}`. */
export function visibleText(text: string): string {
  const shown = text.length <= LONGEST ? text : `${text.slice(0, LONGEST)}…`;
  return shown.replace(HIDDEN, (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`);
}
