// Generated from scripts/*.lua by `npm run lua`. Edit the scripts, not this file.

interface Script {
  /** How many KEYS and ARGV it takes. */
  readonly keys: number;
  readonly args: number;
  readonly lua: string;
}

const lines = (...parts: readonly string[]): string => parts.join('\n');

const nowMs = "local nowMs = redis.call('TIME')\nnowMs = nowMs[1] * 1000 + math.floor(nowMs[2] / 1000)";
const readHolder = "local function readHolder()\nlocal pattern = '^(%S+) (%d+) (%d+) ((%d+) (%d+) (%d+))$'\nlocal text = redis.call('GET', KEYS[2]) or ''\nlocal owner, value, valueAt, race, lowest, tolerance, raceUntil = string.match(text, pattern)\nif not owner or nowMs >= tonumber(valueAt) then\nreturn nil\nend\nlocal held = redis.call('GET', KEYS[1])\nlocal before = redis.call('PTTL', KEYS[1])\nlocal rest = redis.call('PTTL', KEYS[2])\nif held ~= value or rest > before or rest < redis.call('PTTL', KEYS[1]) then\nheld = tonumber(held or '')\nlocal isClose = held and held >= tonumber(lowest) and held <= value + tolerance\nif before ~= -1 or not isClose or nowMs >= tonumber(raceUntil) then\nreturn nil\nend\nend\nreturn { owner = owner, value = tonumber(value), valueAt = tonumber(valueAt), race = race, rest = rest }\nend";
const readOwn = "local function readOwn()\nlocal holder = readHolder()\nif holder and holder.owner == ARGV[1] and tonumber(ARGV[2]) < holder.value then\nreturn holder\nend\nend";
const write = "local function write(owner, own, isLater)\nlocal unitMs, ttlMs = tonumber(ARGV[6]), tonumber(ARGV[5])\nlocal value, valueAt, leaseMs = tonumber(ARGV[3]), nowMs + ARGV[4], ttlMs - unitMs\nlocal race = own and own.race\nif own then\nvalue = math.max(value, own.value + math.ceil((nowMs + leaseMs - own.valueAt) / unitMs))\nif isLater and value <= own.value then\nvalue, ttlMs = own.value, math.max(ttlMs, own.rest)\nend\nvalueAt = own.valueAt + (value - own.value) * unitMs\nelse\nlocal isLong = leaseMs >= 1000\nlocal tolerance = isLong and math.floor(math.min(2000, leaseMs / 4) / unitMs) or 0\nlocal raceUntil = isLong and nowMs + leaseMs / 2 or 0\nrace = string.format('%.0f %.0f %.0f', value - tolerance, tolerance, raceUntil)\nend\nlocal text = string.format('%.0f', value)\nlocal endsAt = string.format('%.0f', nowMs + ttlMs)\nif own then\nredis.call('DEL', KEYS[2])\nend\nredis.call('SET', KEYS[1], text, 'PXAT', endsAt)\nredis.call('SET', KEYS[2], string.format('%s %s %.0f %s', owner, text, valueAt, race), 'PXAT', endsAt)\nend";

export const scripts: Readonly<Record<'acquire' | 'extend' | 'forceRelease' | 'inspect' | 'release', Script>> = {
  acquire: { keys: 2, args: 6, lua: lines(nowMs, readHolder, readOwn, "local own = readOwn()\nlocal held = not own and redis.call('GET', KEYS[1])\nif held then\nlocal expiry = string.match(held, '^%d+%.?%d*$') and tonumber(held)\nlocal isForeign = ARGV[6] == '1' and expiry and expiry >= 1e9 and expiry < 1e10\nif not expiry or isForeign or tonumber(ARGV[2]) <= expiry then\nlocal holder = readHolder()\nreturn { held, holder and holder.owner }\nend\nend", write, "write(ARGV[1], own, true)\nreturn 1") },
  extend: { keys: 2, args: 6, lua: lines(nowMs, readHolder, readOwn, "local own = readOwn()\nif not own then\nreturn 0\nend", write, "write(ARGV[1], own, true)\nreturn 1") },
  forceRelease: { keys: 2, args: 1, lua: lines(nowMs, readHolder, "if redis.call('GET', KEYS[1]) ~= ARGV[1] or readHolder() then\nreturn 0\nend\nreturn redis.call('DEL', KEYS[1], KEYS[2]) > 0 and 1 or 0") },
  inspect: { keys: 2, args: 0, lua: lines("local held = redis.call('GET', KEYS[1])", nowMs, readHolder, "local holder = held and readHolder()\nreturn held and { held, redis.call('PTTL', KEYS[1]), holder and holder.owner }") },
  release: { keys: 2, args: 6, lua: lines(nowMs, readHolder, readOwn, "local own = readOwn()\nif not own then\nreturn 0\nend", write, "if ARGV[5] == '0' then\nredis.call('DEL', KEYS[1], KEYS[2])\nelse\nwrite(ARGV[1] .. ':0', own, false)\nend\nreturn 1") },
};
