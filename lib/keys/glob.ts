/** One step of a glob: any text, or one character. */
type Step = 'any text' | ((character: string) => boolean);

const ANY_CHARACTER = (): boolean => true;

/** Characters that have a meaning in a glob. */
const SPECIAL = /[*?[\]\\^]/g;

/** Returns the text as a glob that matches nothing else. */
export function escapeGlob(text: string): string {
  return text.replace(SPECIAL, '\\$&');
}

/** Returns the text at the start of a glob, up to its first wildcard, without escapes. */
export function literalStart(glob: string): string {
  const [start] = /^(?:[^*?[\\]|\\[^])*/.exec(glob) as RegExpExecArray;
  return start.replace(/\\([^])/g, '$1');
}

/**
 * Returns a function that checks whether a string matches a Redis glob: `*`, `?`, `[abc]`, `[a-z]`, `[^abc]`, and a
 * backslash before a literal character. `?` is one character, even if it takes several bytes. Returns undefined if a
 * bracket is never closed.
 */
export function compileGlob(glob: string): ((text: string) => boolean) | undefined {
  const steps = stepsOf(glob);
  return steps && ((text) => matches(steps, Array.from(text)));
}

function stepsOf(glob: string): readonly Step[] | undefined {
  const characters = Array.from(glob);
  const steps: Step[] = [];
  for (let i = 0; i < characters.length; i += 1) {
    const character = characters[i];
    if (character === '*') {
      if (steps.at(-1) !== 'any text') steps.push('any text');
    } else if (character === '?') steps.push(ANY_CHARACTER);
    else if (character === '[') {
      const set = setAt(characters, i + 1);
      if (set === undefined) return undefined;
      steps.push(set.has);
      i = set.end;
    } else {
      if (character === '\\' && i + 1 < characters.length) i += 1;
      steps.push(isOnly(characters[i]));
    }
  }
  return steps;
}

const isOnly =
  (one: string): Step =>
  (other) =>
    other === one;

/** Returns the set whose first character is at `from`, and where its bracket ends. */
function setAt(characters: readonly string[], from: number) {
  const negated = characters[from] === '^';
  const ranges: (readonly [low: string, high: string])[] = [];
  for (let i = negated ? from + 1 : from; i < characters.length; i += 1) {
    if (characters[i] === ']') {
      const has = (one: string): boolean => ranges.some(([low, high]) => isBetween(one, low, high)) !== negated;
      return { has, end: i };
    }
    if (characters[i] === '\\') i += 1;
    const first = characters[i];
    const last = characters[i + 1] === '-' ? characters[i + 2] : undefined;
    if (last === undefined || last === ']') ranges.push([first, first]);
    else {
      ranges.push([first, last]);
      i += 2;
    }
  }
  return undefined;
}

function isBetween(one: string, low: string, high: string): boolean {
  const [at, from, to] = [one, low, high].map((character) => character.codePointAt(0) as number);
  return at >= Math.min(from, to) && at <= Math.max(from, to);
}

/**
 * Only the last `*` is tried again with a longer text, because an earlier `*` cannot help. The time is at most the
 * product of both lengths, so no glob can block the event loop.
 */
function matches(steps: readonly Step[], text: readonly string[]): boolean {
  let step = 0;
  let at = 0;
  let star = -1;
  let starAt = 0;
  while (at < text.length) {
    const current = steps[step];
    if (current === 'any text') {
      star = step;
      starAt = at;
      step += 1;
    } else if (current?.(text[at])) {
      step += 1;
      at += 1;
    } else if (star !== -1) {
      starAt += 1;
      at = starAt;
      step = star + 1;
    } else return false;
  }
  if (steps[step] === 'any text') step += 1;
  return step === steps.length;
}
