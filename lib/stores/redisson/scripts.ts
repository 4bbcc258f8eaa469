// Generated from scripts/*.lua by `npm run lua`. Edit the scripts, not this file.

interface Script {
  /** How many KEYS and ARGV it takes. */
  readonly keys: number;
  readonly args: number;
  readonly lua: string;
}

const lines = (...parts: readonly string[]): string => parts.join('\n');

const readOwner = "local function readOwner()\nlocal fields = redis.call('HKEYS', KEYS[1])\nif #fields == 0 or (#fields == 1 and string.find(fields[1], ':%-?%d+$')) then\nreturn fields[1]\nend\nlocal isReadWrite = redis.call('HEXISTS', KEYS[1], 'mode') == 1\nlocal kind = isReadWrite and 'a ReadWriteLock of Redisson' or 'a hash but not a lock of Redisson'\nreturn nil, redis.error_reply('WRONGTYPE the key is ' .. kind)\nend";

export const scripts: Readonly<Record<'acquire' | 'extend' | 'inspect' | 'release', Script>> = {
  acquire: { keys: 2, args: 2, lua: lines(readOwner, "local owner, wrongKind = readOwner()\nif wrongKind then\nreturn wrongKind\nend\nif not owner then\nlocal token = KEYS[2] and redis.call('INCR', KEYS[2]) or 0\nredis.call('HSET', KEYS[1], ARGV[1], 1)\nredis.call('PEXPIRE', KEYS[1], ARGV[2])\nreturn { 1, token }\nend\nlocal remaining = redis.call('PTTL', KEYS[1])\nif owner ~= ARGV[1] then\nreturn { 0, remaining, owner }\nend\nif remaining < tonumber(ARGV[2]) then\nredis.call('PEXPIRE', KEYS[1], ARGV[2])\nend\nreturn { 1, KEYS[2] and (redis.call('GET', KEYS[2]) or redis.call('INCR', KEYS[2])) or 0 }") },
  extend: { keys: 1, args: 2, lua: lines(readOwner, "if readOwner() ~= ARGV[1] then\nreturn 0\nend\nif redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then\nredis.call('PEXPIRE', KEYS[1], ARGV[2])\nend\nreturn 1") },
  inspect: { keys: 2, args: 0, lua: lines(readOwner, "local owner, wrongKind = readOwner()\nif wrongKind then\nreturn wrongKind\nend\nreturn owner and { owner, redis.call('PTTL', KEYS[1]), KEYS[2] and redis.call('GET', KEYS[2]) }") },
  release: { keys: 1, args: 4, lua: "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then\nreturn -2\nend\nif #redis.call('HKEYS', KEYS[1]) > 1 then\nredis.call('HDEL', KEYS[1], ARGV[1])\nreturn 0\nend\nredis.call('DEL', KEYS[1])\nlocal function publish(message)\nlocal receivers = ARGV[4] and redis.pcall('SPUBLISH', ARGV[3], message)\nif not receivers or (type(receivers) == 'table' and string.find(receivers.err, 'nknown')) then\nreceivers = redis.pcall('PUBLISH', ARGV[3], message)\nend\nreturn receivers\nend\nif ARGV[2] ~= '0' then\nredis.call('HSET', KEYS[1], ARGV[1] .. ':0', 1)\nredis.call('PEXPIRE', KEYS[1], ARGV[2])\npublish('1')\nend\nlocal receivers = publish('0')\nreturn type(receivers) == 'number' and receivers or -1" },
};
