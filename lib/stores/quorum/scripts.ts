// Generated from scripts/*.lua by `npm run lua`. Edit the scripts, not this file.

interface Script {
  /** How many KEYS and ARGV it takes. */
  readonly keys: number;
  readonly args: number;
  readonly lua: string;
}

export const scripts: Readonly<Record<'acquire' | 'extend' | 'release' | 'writeBack', Script>> = {
  acquire: { keys: 2, args: 3, lua: "local held = redis.call('GET', KEYS[1])\nlocal ours = ARGV[1] .. ' '\nlocal now = redis.call('TIME')\nnow = now[1] .. string.sub('00000' .. now[2], -6)\nif held and string.sub(held, 1, #ours) ~= ours then\nreturn { 0, now, redis.call('PTTL', KEYS[1]), held }\nend\nlocal token = held and string.sub(held, #ours + 1)\nif not token then\nlocal last = tonumber(redis.call('GET', KEYS[2]))\nlocal back = last and 16 or 0\nlocal first = math.max((last or 0) + 1, now - back, ARGV[3] - back)\nredis.call('SET', KEYS[2], string.format('%.0f', first + 16), 'EX', 86400)\ntoken = string.format('%.0f', first)\nend\nredis.call('SET', KEYS[1], ours .. token, 'PX', math.max(ARGV[2], redis.call('PTTL', KEYS[1])))\nreturn { 1, now, token }" },
  extend: { keys: 1, args: 2, lua: "local held = redis.call('GET', KEYS[1])\nlocal ours = ARGV[1] .. ' '\nif not held or string.sub(held, 1, #ours) ~= ours then\nreturn held and 0 or -1\nend\nredis.call('PEXPIRE', KEYS[1], math.max(ARGV[2], redis.call('PTTL', KEYS[1])))\nreturn 1" },
  release: { keys: 1, args: 2, lua: "local held = redis.call('GET', KEYS[1])\nlocal ours = ARGV[1] .. ' '\nif not held or string.sub(held, 1, #ours) ~= ours then\nreturn 0\nend\nif ARGV[2] == '0' then\nreturn redis.call('DEL', KEYS[1])\nend\nredis.call('SET', KEYS[1], '!' .. held, 'PX', ARGV[2])\nreturn 1" },
  writeBack: { keys: 2, args: 2, lua: "local last = math.max(redis.call('GET', KEYS[2]) or 0, ARGV[2] + 16)\nredis.call('SET', KEYS[2], string.format('%.0f', last), 'EX', 86400)\nlocal held = redis.call('GET', KEYS[1])\nlocal ours = ARGV[1] .. ' '\nif not held or string.sub(held, 1, #ours) ~= ours then\nreturn 0\nend\nredis.call('SET', KEYS[1], ours .. ARGV[2], 'KEEPTTL')\nreturn 1" },
};
