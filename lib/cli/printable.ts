/**
 * What a terminal may interpret, hide or reorder: control and format characters, private and unassigned ones, and white
 * space except the space. Three combining marks and more can cover other lines.
 */
const HOSTILE = /[\p{C}\p{Zl}\p{Zp}]|[^\S ]|\p{M}{3,}/gu;

/** In JSON, the same without what is harmless there. */
const HOSTILE_IN_JSON = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** Characters of two columns. */
const WIDE = new RegExp(
  [
    String.raw`[\p{Emoji_Presentation}\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}`,
    String.raw`\u3001-\u303f\uff01-\uff60\uffe0-\uffe6]`,
  ].join(''),
  'u',
);

/** Of the scripts above, characters of one column. */
const HALF_WIDTH = /[\uff61-\uffdc\uffe8-\uffee]/u;

const MARK = /\p{M}/u;

/**
 * Returns a name as it can be shown on a terminal. Hostile characters become escapes such as `\u{202e}`. A backslash is
 * doubled, so that what is shown has one meaning.
 */
export function printable(name: string): string {
  return printableMessage(name.replaceAll('\\', '\\\\'));
}

/** Returns a message as it can be shown on a terminal. Hostile characters are escaped. */
export function printableMessage(text: string): string {
  const escape = (character: string): string => `\\u{${(character.codePointAt(0) as number).toString(16)}}`;
  return text.replace(HOSTILE, (found) => Array.from(found, escape).join(''));
}

/** Returns the value as JSON on one line. Characters that a terminal may interpret are escaped as `\u202e`. */
export function printableJson(value: unknown): string {
  const escapeUnits = (found: string): string =>
    Array.from({ length: found.length }, (_, i) => `\\u${found.charCodeAt(i).toString(16).padStart(4, '0')}`).join('');
  return JSON.stringify(value).replace(HOSTILE_IN_JSON, escapeUnits);
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
  return WIDE.test(character) && !HALF_WIDTH.test(character) ? 2 : 1;
}
