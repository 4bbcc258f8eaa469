// Generated from scripts/*.lua by `npm run lua`. Edit the scripts, not this file.

interface Script {
  /** How many KEYS and ARGV it takes. */
  readonly keys: number;
  readonly args: number;
  readonly lua: string;
}

export const scripts: Readonly<Record<'acquire' | 'extend' | 'release', Script>> = {
  acquire: { keys: 2, args: 6, lua: "local now = redis.call('TIME')\nnow = now[1] .. string.sub('00000' .. now[2], -6)\nif now > ARGV[6] then\nreturn { -1, now }\nend\nlocal held = redis.call('GET', KEYS[1])\nif held == ARGV[3] and redis.call('GET', KEYS[2]) == ARGV[1] then\nreturn { 1, now }\nend\nif held then\nlocal expiry = string.match(held, '^%d+%.?%d*$') and tonumber(held)\nlocal foreign = ARGV[5] == 'ms' and expiry and expiry >= 1e9 and expiry < 1e10\nif not expiry or foreign or tonumber(ARGV[2]) <= expiry then\nreturn { 0, now, held }\nend\nend\nredis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])\nredis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[4])\nreturn { held and 2 or 1, now }" },
  extend: { keys: 2, args: 6, lua: "local now = redis.call('TIME')\nnow = now[1] .. string.sub('00000' .. now[2], -6)\nlocal function isOurs(owner, lowest, highest, endsAt, now)\nlocal held = tonumber(redis.call('GET', KEYS[1]) or '')\nlocal current = now < endsAt and redis.call('GET', KEYS[2]) == owner\nreturn current and held and held >= tonumber(lowest) and held <= tonumber(highest)\nend\nif isOurs(ARGV[1], ARGV[2], ARGV[3], ARGV[4], now) then\nredis.call('SET', KEYS[1], ARGV[5], 'PX', ARGV[6])\nredis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[6])\nreturn 1\nend\nreturn 0" },
  release: { keys: 2, args: 4, lua: "local now = redis.call('TIME')\nnow = now[1] .. string.sub('00000' .. now[2], -6)\nlocal function isOurs(owner, lowest, highest, endsAt, now)\nlocal held = tonumber(redis.call('GET', KEYS[1]) or '')\nlocal current = now < endsAt and redis.call('GET', KEYS[2]) == owner\nreturn current and held and held >= tonumber(lowest) and held <= tonumber(highest)\nend\nif isOurs(ARGV[1], ARGV[2], ARGV[3], ARGV[4], now) then\nredis.call('DEL', KEYS[1], KEYS[2])\nreturn 1\nend\nreturn 0" },
};
