import { types } from 'node:util';

/** Longer strings and names are described by their length, so that errors stay short. */
const LONGEST_TEXT = 200;
const LONGEST_NAME = 60;

/** What comes before an `@` in a URL or in `user:password@host`, and the parameters of a URL, can be passwords. */
const CREDENTIALS = /(\/\/)\S*@|^[^\s/:]*:(?!\/\/)\S*@/g;
const PARAMETERS = /(:\/\/[^\s?]*\?)\S+/g;

/** Control characters, other characters that could forge a log line, and lone surrogates. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * Returns a value that a caller has given, as an error shows it: at most about 200 characters and without the passwords
 * of URLs. Never throws, whatever the value is.
 */
export function formatValue(value: unknown): string {
  if (typeof value === 'string') return formatText(value);
  if (Object.is(value, -0)) return '-0';
  return kindOf(value);
}

/** Returns the kind of a value for an error, never a string's text, which may be personal data. Never throws. */
export function kindOf(value: unknown): string {
  if (typeof value === 'string') return value === '' ? 'an empty string' : `a string of ${count(value.length)}`;
  if (typeof value === 'function' || typeof value === 'symbol') return `a ${typeof value}`;
  if (typeof value === 'bigint') return value > -1e15 && value < 1e15 ? `${value}n` : 'a large bigint';
  if (typeof value !== 'object' || value === null) return String(value);
  try {
    return kindOfObject(value);
  } catch {
    // A revoked Proxy, or a getter that throws.
    return 'an object that cannot be read';
  }
}

/**
 * Handles the rejection of a promise that a caller's function returned in place of something else. The caller gets an
 * error but no promise to handle, so the rejection would end the process.
 */
export function dropPromise(value: unknown): void {
  if (types.isPromise(value)) value.catch(() => undefined);
}

/** Returns the name of an option or a property for an error. */
export function formatName(name: string): string {
  return name.length <= LONGEST_NAME && /^[\w$.-]+$/.test(name) ? name : formatText(name);
}

/** Returns a string, cut off if it is too long for an error. */
export function shortened(text: string): string {
  return text.length <= LONGEST_TEXT ? text : `${text.slice(0, LONGEST_TEXT)}…`;
}

/** Returns a text with `?` in place of each character that could forge a log line. */
export function withoutForgery(text: string): string {
  return text.replace(UNPRINTABLE, '?');
}

/** The longest label that is shown. */
const LONGEST_LABEL = 128;

/** Returns the part of a label that is shown. */
export function shownLabel(label: string | undefined): string | undefined {
  // It may be a header that a client sent, so a bad one must not make the call fail.
  return label === undefined ? undefined : withoutForgery(label.slice(0, LONGEST_LABEL));
}

/** Returns ` in Shop.buy (request 7)` for the work of a holder. Empty if nothing is known. */
export function nameOfWork(work: {
  readonly method?: string | undefined;
  readonly label?: string | undefined;
}): string {
  const by = work.method === undefined ? '' : ` in ${work.method}`;
  return work.label === undefined ? by : `${by} (${shownLabel(work.label)})`;
}

/** Returns a time as `4.2 s`, or as `250 ms` if it is shorter than a second. */
export function secondsOf(ms: number): string {
  return ms < 1_000 ? `${Math.max(0, Math.round(ms))} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

function formatText(text: string): string {
  if (text.length > LONGEST_TEXT) return `a string of ${count(text.length)}`;
  return JSON.stringify(text.replace(CREDENTIALS, (_, slashes = '') => `${slashes}***@`).replace(PARAMETERS, '$1***'));
}

function count(characters: number): string {
  return characters === 1 ? '1 character' : `${characters} characters`;
}

function kindOfObject(value: object): string {
  if (Array.isArray(value)) return 'an array';
  if (types.isPromise(value)) return 'a Promise';
  const made: unknown = value.constructor;
  const name: unknown = typeof made === 'function' ? made.name : undefined;
  if (typeof name !== 'string' || name === '') return 'an object without a class';
  return name === 'Object' ? 'a plain object' : `an object of class ${formatName(name)}`;
}
