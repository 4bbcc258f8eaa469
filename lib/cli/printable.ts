/**
 * What a terminal may interpret, hide or reorder: control and format characters, private and unassigned ones, and white
 * space except the space. Three combining marks and more, which can cover other lines. The backslash, so that what is
 * shown has one meaning.
 */
const ESCAPED = /[\\\p{C}\p{Zl}\p{Zp}]|[^\S ]|\p{M}{3,}/gu;

/** In JSON, the same without what is harmless there. */
const ESCAPED_IN_JSON = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** Characters of two columns. */
const WIDE =
  /[\p{Emoji_Presentation}\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u3001-\u303f\uff01-\uff60\uffe0-\uffe6]/u;

const MARK = /\p{M}/u;

const escape = (character: string): string =>
  character === '\\' ? '\\\\' : `\\u{${(character.codePointAt(0) as number).toString(16)}}`;

/** Returns the text as it can be shown on a terminal. Hostile characters become escapes such as `\u{202e}`. */
export function printable(text: string): string {
  return text.replace(ESCAPED, (found) => [...found].map(escape).join(''));
}

/** Returns the value as JSON on one line. Characters that a terminal may interpret are escaped as `\u202e`. */
export function printableJson(value: unknown): string {
  const escapeUnits = (found: string): string =>
    Array.from({ length: found.length }, (_, i) => `\\u${found.charCodeAt(i).toString(16).padStart(4, '0')}`).join('');
  return JSON.stringify(value).replace(ESCAPED_IN_JSON, escapeUnits);
}

/** Returns how many columns a printable text takes. */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += widthOfCharacter(character);
  return width;
}

/** Returns the text if it fits, otherwise its start and `…`. */
export function fitted(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let start = '';
  let rest = width - 1;
  for (const character of text) {
    rest -= widthOfCharacter(character);
    if (rest < 0) break;
    start += character;
  }
  return width > 0 ? `${start}…` : '';
}

function widthOfCharacter(character: string): number {
  if (character <= '\u007e') return 1;
  if (MARK.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}
