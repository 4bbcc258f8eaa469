// Generated from scripts/*.lua by `npm run lua`. Edit the scripts, not this file.

interface Script {
  /** How many KEYS and ARGV it takes. */
  readonly keys: number;
  readonly args: number;
  readonly lua: string;
}

export const scripts: Readonly<Record<'inspect', Script>> = {
  inspect: { keys: 1, args: 0, lua: "local held = redis.call('GET', KEYS[1])\nif not held then\nreturn nil\nend\nreturn { held, redis.call('PTTL', KEYS[1]) }" },
};
