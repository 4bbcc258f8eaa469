// Generated from scripts/*.lua by `npm run lua`. Edit the scripts, not this file.

interface Script {
  /** How many KEYS and ARGV it takes. */
  readonly keys: number;
  readonly args: number;
  readonly lua: string;
}

const lines = (...parts: readonly string[]): string => parts.join('\n');

const now = "local now = redis.call('TIME')\nnow = now[1] .. string.sub('00000' .. now[2], -6)";
const isUnchanged = "local function isUnchanged()\nlocal before = redis.call('PTTL', KEYS[1])\nlocal holder = redis.call('PTTL', KEYS[2])\nreturn holder <= before and holder >= redis.call('PTTL', KEYS[1])\nend";
const write = "local function write(expiry, owner, ttlMs, now)\nlocal endsAt = string.format('%.0f', math.floor(tonumber(now) / 1000) + tonumber(ttlMs))\nredis.call('SET', KEYS[1], expiry, 'PXAT', endsAt)\nredis.call('SET', KEYS[2], owner, 'PXAT', endsAt)\nend";
const isOurs = "local function isOurs(owner, lowest, highest, raceUntil, endsAt, now, written)\nlocal held = redis.call('GET', KEYS[1])\nif now >= endsAt or redis.call('GET', KEYS[2]) ~= owner then\nreturn false\nend\nif held == written and isUnchanged() then\nreturn true\nend\nheld = tonumber(held or '')\nif not held or held < tonumber(lowest) or held > tonumber(highest) then\nreturn false\nend\nreturn isUnchanged() or (now < raceUntil and redis.call('PTTL', KEYS[1]) == -1)\nend";

export const scripts: Readonly<Record<'acquire' | 'extend' | 'forceRelease' | 'release', Script>> = {
  acquire: { keys: 2, args: 6, lua: lines(now, "if now > ARGV[6] then\nreturn { -1, now }\nend\nlocal held = redis.call('GET', KEYS[1])", isUnchanged, "if held == ARGV[3] and redis.call('GET', KEYS[2]) == ARGV[1] and isUnchanged() then\nreturn { 1, now }\nend\nif held then\nlocal expiry = string.match(held, '^%d+%.?%d*$') and tonumber(held)\nlocal foreign = ARGV[5] == 'ms' and expiry and expiry >= 1e9 and expiry < 1e10\nif not expiry or foreign or tonumber(ARGV[2]) <= expiry then\nlocal owner = redis.call('GET', KEYS[2])\nreturn { 0, now, held, owner and isUnchanged() and owner or nil }\nend\nend", write, "write(ARGV[3], ARGV[1], ARGV[4], now)\nreturn { held and 2 or 1, now }") },
  extend: { keys: 2, args: 7, lua: lines(now, write, isUnchanged, isOurs, "if isOurs(ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], now, ARGV[6]) then\nwrite(ARGV[6], ARGV[1], ARGV[7], now)\nreturn 1\nend\nreturn 0") },
  forceRelease: { keys: 2, args: 2, lua: "if redis.call('GET', KEYS[1]) ~= ARGV[1] or (redis.call('GET', KEYS[2]) or '') ~= ARGV[2] then\nreturn 0\nend\nredis.call('DEL', KEYS[1], KEYS[2])\nreturn 1" },
  release: { keys: 2, args: 5, lua: lines(now, isUnchanged, isOurs, "if isOurs(ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], now) then\nredis.call('DEL', KEYS[1], KEYS[2])\nreturn 1\nend\nreturn 0") },
};
