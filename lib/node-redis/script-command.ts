/** Returns EVAL or EVALSHA with prefixed keys. */
export function scriptCommand(
  command: 'EVAL' | 'EVALSHA',
  prefix: string,
  script: string,
  keyCount: number,
  args: readonly string[],
): string[] {
  const prefixed = prefix === '' ? args : args.map((arg, i) => (i < keyCount ? prefix + arg : arg));
  return [command, script, String(keyCount), ...prefixed];
}
