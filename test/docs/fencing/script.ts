import { RedisFence } from 'nestjs-redis-lock/fence';

export async function rename(
  fence: RedisFence,
  fencingToken: number,
  from: string,
  to: string,
): Promise<boolean> {
  const moved = await fence.write(fencingToken, {
    lua: `if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
          redis.call('RENAME', KEYS[1], KEYS[2])
          redis.call('PEXPIRE', KEYS[2], ARGV[1])
          return 1`,
    keys: [from, to],
    args: [60_000],
  });
  return moved === 1;
}
