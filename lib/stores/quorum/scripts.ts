// Generated from scripts/*.lua by `npm run lua`. Edit the scripts, not this file.

interface Script {
  /** How many KEYS and ARGV it takes. */
  readonly keys: number;
  readonly args: number;
  readonly lua: string;
}

const lines = (...parts: readonly string[]): string => parts.join('\n');

const now = "local now = redis.call('TIME')\nnow = now[1] .. string.sub('00000' .. now[2], -6)";
const raiseFence = "local function raiseFence(last)\nlocal before = redis.call('GET', KEYS[2])\nif not before or tonumber(before) < tonumber(last) then\nredis.call('SET', KEYS[2], last, 'EX', '86400')\nend\nend";

export const scripts: Readonly<Record<'acquire' | 'extend' | 'release' | 'restore' | 'writeBack', Script>> = {
  acquire: { keys: 2, args: 6, lua: lines(now, "if tonumber(now) > tonumber(ARGV[4]) then\nreturn { -1, 0, now }\nend\nlocal held = redis.call('GET', KEYS[1])\nlocal ours = ARGV[1] .. ' '\nif held and string.sub(held, 1, #ours) ~= ours then\nreturn { 0, redis.call('PTTL', KEYS[1]), now, held }\nend\nif held then\nlocal round, token = string.match(held, '^(%d+) (%d+)$', #ours + 1)\nif tonumber(round) > tonumber(ARGV[2]) then\nreturn { -1, 0, now }\nend\nredis.call('SET', KEYS[1], ours .. ARGV[2] .. ' ' .. token, 'KEEPTTL')\nif redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then\nredis.call('PEXPIRE', KEYS[1], ARGV[3])\nend\nreturn { 2, token, now }\nend\nlocal function reserveTokens(tokens, proposed, now)\nlocal last = tonumber(redis.call('GET', KEYS[2]))\nlocal back = last and tokens - 1 or 0\nlocal first = math.max((last or 0) + 1, now - back, proposed - back)\nredis.call('SET', KEYS[2], string.format('%.0f', first + tokens - 1), 'EX', '86400')\nreturn string.format('%.0f', first)\nend\nlocal token = reserveTokens(ARGV[5], ARGV[6], now)\nredis.call('SET', KEYS[1], ours .. ARGV[2] .. ' ' .. token, 'PX', ARGV[3])\nreturn { 1, token, now }") },
  extend: { keys: 2, args: 2, lua: "local held = redis.call('GET', KEYS[1])\nif not held then\nreturn -1\nend\nlocal ours = ARGV[1] .. ' '\nif string.sub(held, 1, #ours) ~= ours then\nreturn 0\nend\nif redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then\nredis.call('PEXPIRE', KEYS[1], ARGV[2])\nend\nreturn { held, redis.call('GET', KEYS[2]) or '0' }" },
  release: { keys: 1, args: 2, lua: "local held = redis.call('GET', KEYS[1])\nlocal ours = ARGV[1] .. ' '\nif not held or string.sub(held, 1, #ours) ~= ours then\nreturn 0\nend\nif ARGV[2] ~= '0' then\nredis.call('PEXPIRE', KEYS[1], ARGV[2])\nelse\nredis.call('DEL', KEYS[1])\nend\nreturn 1" },
  restore: { keys: 2, args: 4, lua: lines(now, "if tonumber(now) > tonumber(ARGV[4]) then\nreturn 0\nend", raiseFence, "raiseFence(ARGV[2])\nreturn redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[3]) and 1 or 0") },
  writeBack: { keys: 2, args: 3, lua: lines(raiseFence, "raiseFence(ARGV[3])\nlocal held = redis.call('GET', KEYS[1])\nlocal ours = ARGV[1] .. ' '\nif not held or string.sub(held, 1, #ours) ~= ours then\nreturn 0\nend\nredis.call('SET', KEYS[1], ours .. ARGV[2], 'KEEPTTL')\nreturn 1") },
};
