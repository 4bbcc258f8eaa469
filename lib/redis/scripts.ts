// Generated from scripts/*.lua by `npm run lua`. Edit the scripts, not this file.

interface Script {
  /** How many KEYS and ARGV it takes. */
  readonly keys: number;
  readonly args: number;
  readonly lua: string;
}

export const scripts: Readonly<Record<'application' | 'inspect', Script>> = {
  application: { keys: 1, args: 2, lua: "local before = redis.call('GET', KEYS[1])\nredis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\nreturn before or ''" },
  inspect: { keys: 1, args: 0, lua: "local held = redis.call('GET', KEYS[1])\nif not held then\nreturn nil\nend\nreturn { held, redis.call('PTTL', KEYS[1]) }" },
};
