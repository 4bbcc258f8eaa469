// Generated from scripts/*.lua by `npm run lua`. Edit the scripts, not this file.

interface Script {
  /** How many KEYS and ARGV it takes. */
  readonly keys: number;
  readonly args: number;
  readonly lua: string;
}

const lines = (...parts: readonly string[]): string => parts.join('\n');

const isAlone = "local function isAlone(owner)\nreturn redis.call('HEXISTS', KEYS[1], owner) == 1 and #redis.call('HKEYS', KEYS[1]) == 1\nend";
const kindError = "local function kindError()\nif redis.call('HEXISTS', KEYS[1], 'mode') == 1 then\nreturn redis.error_reply('WRONGTYPE the key is a ReadWriteLock of Redisson')\nend\nlocal fields = redis.call('HKEYS', KEYS[1])\nif #fields > 1 or not string.find(fields[1], ':%d+$') then\nreturn redis.error_reply('WRONGTYPE the key is a hash but not a lock of Redisson')\nend\nend";

export const scripts: Readonly<Record<'acquire' | 'extend' | 'forceRelease' | 'inspect' | 'probeSubscription' | 'release', Script>> = {
  acquire: { keys: 2, args: 3, lua: lines("local now = redis.call('TIME')\nnow = now[1] .. string.sub('00000' .. now[2], -6)\nif now > ARGV[3] then\nreturn { -1, 0, now }\nend\nif redis.call('EXISTS', KEYS[1]) == 0 then\nlocal token = KEYS[2] and redis.call('INCR', KEYS[2]) or 0\nredis.call('HSET', KEYS[1], ARGV[1], 1)\nredis.call('PEXPIRE', KEYS[1], ARGV[2])\nreturn { 1, token, now }\nend\nlocal remaining = redis.call('PTTL', KEYS[1])", isAlone, kindError, "if not isAlone(ARGV[1]) then\nreturn kindError() or { 0, remaining, now }\nend\nif remaining < tonumber(ARGV[2]) then\nredis.call('PEXPIRE', KEYS[1], ARGV[2])\nend\nreturn { 1, KEYS[2] and (redis.call('GET', KEYS[2]) or redis.call('INCR', KEYS[2])) or 0, now }") },
  extend: { keys: 1, args: 2, lua: lines(isAlone, "if not isAlone(ARGV[1]) then\nreturn 0\nend\nif redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then\nredis.call('PEXPIRE', KEYS[1], ARGV[2])\nend\nreturn 1") },
  forceRelease: { keys: 1, args: 3, lua: lines("if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then\nreturn 0\nend", kindError, "local wrong = kindError()\nif wrong then\nreturn wrong\nend\nredis.call('DEL', KEYS[1])\nlocal function publish(message)\nlocal receivers = ARGV[3] and redis.pcall('SPUBLISH', ARGV[2], message)\nif not receivers or (type(receivers) == 'table' and string.find(receivers.err, 'nknown')) then\nreceivers = redis.pcall('PUBLISH', ARGV[2], message)\nend\nreturn receivers\nend\npublish('0')\nreturn 1") },
  inspect: { keys: 2, args: 0, lua: "local owner = redis.call('HKEYS', KEYS[1])[1]\nif not owner then\nreturn nil\nend\nreturn { owner, redis.call('PTTL', KEYS[1]), KEYS[2] and redis.call('GET', KEYS[2]) }" },
  probeSubscription: { keys: 0, args: 1, lua: "return redis.call('PUBLISH', ARGV[1], '')" },
  release: { keys: 1, args: 4, lua: "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then\nreturn -2\nend\nif #redis.call('HKEYS', KEYS[1]) > 1 then\nredis.call('HDEL', KEYS[1], ARGV[1])\nreturn 0\nend\nlocal function publish(message)\nlocal receivers = ARGV[4] and redis.pcall('SPUBLISH', ARGV[3], message)\nif not receivers or (type(receivers) == 'table' and string.find(receivers.err, 'nknown')) then\nreceivers = redis.pcall('PUBLISH', ARGV[3], message)\nend\nreturn receivers\nend\nif ARGV[2] == '0' then\nredis.call('DEL', KEYS[1])\nelse\nredis.call('PEXPIRE', KEYS[1], ARGV[2])\npublish('1')\nend\nlocal receivers = publish('0')\nreturn type(receivers) == 'number' and receivers or -1" },
};
