// Generated from scripts/*.lua by `npm run lua`. Edit the scripts, not this file.

interface Script {
  /** How many KEYS and ARGV it takes. */
  readonly keys: number;
  readonly args: number;
  readonly lua: string;
}

const lines = (...parts: readonly string[]): string => parts.join('\n');

const lastToken = "local function lastToken()\nlocal last = redis.pcall('GET', KEYS[1])\nif type(last) == 'table' and string.find(last.err, 'WRONGTYPE') then\nreturn redis.error_reply('NOTAFENCE a value of another type')\nend\nif type(last) == 'string' and not string.find(last, '^%d+$') then\nreturn redis.error_reply('NOTAFENCE a string that is not a token')\nend\nreturn last\nend";

export const scripts: Readonly<Record<'open' | 'write', Script>> = {
  open: { keys: 1, args: 2, lua: lines(lastToken, "local last = lastToken()\nif type(last) == 'table' then\nreturn last\nend\nif last and tonumber(last) > tonumber(ARGV[1]) then\nreturn 0\nend\nredis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\nreturn 1") },
  write: { keys: 1, args: 1, lua: lines(lastToken, "do\nlocal last = lastToken()\nif type(last) == 'table' then\nreturn last\nend\nif last ~= ARGV[1] then\nreturn redis.error_reply('STALEFENCE a later holder has opened the fence')\nend\nend") },
};
