/**
 * What a terminal may interpret, hide or reorder: control and format characters, private and unassigned ones, and white
 * space except the space. Three combining marks and more can cover other lines.
 */
const HOSTILE = /[\p{C}\p{Zl}\p{Zp}]|[^\S ]|\p{M}{3,}/gu;

/** What comes before the host of a URL, which can be a password. */
const CREDENTIALS = /([a-z][a-z\d+.-]*:\/\/)\S*@/gi;

/** The fields of a lock that only an instance of the application knows. */
const LOCAL_FIELDS: readonly string[] = ['isOwn', 'waitingHere'];

/**
 * Returns a name as it can be shown on a terminal. Hostile characters become escapes such as `\u{202e}`. A backslash is
 * doubled, so that what is shown has one meaning.
 */
export function printable(name: string): string {
  return escaped(name.replaceAll('\\', '\\\\'));
}

/** Returns a message as it can be shown on a terminal: without the passwords of URLs, and with escapes. */
export function printableMessage(text: string): string {
  return escaped(text.replace(CREDENTIALS, '$1***@'));
}

/**
 * Returns a lock, or an object that contains one, as JSON on one line. Unknown values are null, and so is a lease
 * without end. Times are whole milliseconds. Characters that a terminal may interpret are escaped as `\u202e`.
 */
export function printableJson(shown: object | null): string {
  const json = JSON.stringify(shown, (name, value: unknown) => {
    if (LOCAL_FIELDS.includes(name)) return undefined;
    return typeof value === 'number' ? Math.round(value) : (value ?? null);
  });
  const escape = (found: string): string =>
    Array.from({ length: found.length }, (_, i) => `\\u${found.charCodeAt(i).toString(16).padStart(4, '0')}`).join('');
  return `${json.replace(HOSTILE, escape)}\n`;
}

function escaped(text: string): string {
  const escape = (character: string): string => `\\u{${(character.codePointAt(0) as number).toString(16)}}`;
  return text.replace(HOSTILE, (found) => Array.from(found, escape).join(''));
}
