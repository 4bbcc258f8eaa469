const CALL = /redis\.p?call\(\s*([^()]*(?:\([^()]*\)[^()]*)*)\)/g;
const KEYLESS = /^'(?:TIME|S?PUBLISH|PUBSUB)'$/;
const ALL_ARE_KEYS = /^'(?:EXISTS|DEL)'$/;
const LITERAL = /^KEYS\[\d+\]$/;

/** Refuses a script without keys, or with a command whose key is not a literal `KEYS[n]`, as some vendors do. */
export function refuseOtherKeys(words: readonly string[]): string | undefined {
  if (words[0]?.toUpperCase() !== 'EVAL') return undefined;
  if (words[2] === '0') return "ERR wrong number of arguments for 'EVAL'";
  for (const [call, list] of words[1].matchAll(CALL)) {
    const [command, ...args] = list.split(',').map((arg) => arg.trim());
    if (KEYLESS.test(command)) continue;
    const keys = ALL_ARE_KEYS.test(command) ? args : args.slice(0, 1);
    const literal = command.startsWith("'") && keys.length > 0 && keys.every((key) => LITERAL.test(key));
    if (!literal)
      return `ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array: ${call}`;
  }
  return undefined;
}
