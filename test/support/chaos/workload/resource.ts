import { Redis } from 'ioredis';
import type { Write } from '../history/events.js';

/** What a caller read before its pause. */
export interface Seen {
  readonly register: string;
  readonly fenced: string;
  readonly set: string;
  /** False if the fence has seen a higher token: the fenced register was not read. */
  readonly opened: boolean;
}

/** Raises the fence before the first read, so that no late writer overwrites what is read now. */
const OPEN = `
local last = tonumber(redis.call('GET', KEYS[1]) or 0)
local opened = ARGV[1] == '' or ARGV[2] == '0' or tonumber(ARGV[1]) >= last
if opened and ARGV[1] ~= '' then redis.call('SET', KEYS[1], ARGV[1]) end
return { redis.call('GET', KEYS[2]) or '', redis.call('GET', KEYS[3]) or '', redis.call('GET', KEYS[4]) or '', opened and 1 or 0 }`;

/** Each register logs its writers, and the operation whose value each had read. */
const WRITE = `
local function write(register, log, basedOn)
  redis.call('SET', register, ARGV[1])
  redis.call('RPUSH', log, ARGV[1] .. ' ' .. basedOn)
end
write(KEYS[2], KEYS[5], ARGV[4])
redis.call('SET', KEYS[4], ARGV[6])
local last = tonumber(redis.call('GET', KEYS[1]) or 0)
local fits = ARGV[7] == '1' and ARGV[2] ~= '' and (ARGV[3] == '0' or tonumber(ARGV[2]) >= last)
if fits then write(KEYS[3], KEYS[6], ARGV[5]) end
local time = redis.call('TIME')
return { fits and 1 or 0, time[1], time[2] }`;

const KEYS = ['fence', 'register', 'fenced', 'set', 'register:log', 'fenced:log'];

/**
 * The protected resource on its own server: a register, a register behind a fence, and a set that is read and written
 * back with one more element. Each visit reads and writes all three, so a single fault affects all of them.
 */
export class Resource {
  private readonly redis: Redis;

  /** @param fenceOn false: the fence accepts any token. */
  constructor(
    url: string,
    private readonly fenceOn = true,
  ) {
    this.redis = new Redis(url);
  }

  /** @param token undefined if the store has none. Then the fenced register is not used. */
  async open(token: number | undefined): Promise<Seen> {
    const reply = await this.redis.eval(OPEN, 4, ...KEYS.slice(0, 4), token ?? '', this.fenceOn ? '1' : '0');
    const [register, fenced, set, opened] = reply as [string, string, string, number];
    return { register, fenced, set, opened: opened === 1 && token !== undefined };
  }

  async write(op: string, token: number | undefined, { register, fenced, set, opened }: Seen) {
    const fence = [token ?? '', this.fenceOn ? '1' : '0'];
    const more = set === '' ? op : `${set} ${op}`;
    const reply = await this.redis.eval(WRITE, 6, ...KEYS, op, ...fence, register, fenced, more, opened ? '1' : '0');
    const [fencedWrite, seconds, micros] = (reply as (string | number)[]).map(Number);
    return { fencedWrite: fencedWrite === 1, server: seconds * 1_000 + micros / 1_000 };
  }

  /** Reads the register without a fence. */
  async read(): Promise<string> {
    return (await this.redis.get('register')) ?? '';
  }

  /** Returns all writes, and the elements of the set. */
  async contents(): Promise<{ register: readonly Write[]; fenced: readonly Write[]; set: readonly string[] }> {
    const log = async (key: string): Promise<readonly Write[]> =>
      (await this.redis.lrange(key, 0, -1)).map((line) => {
        const [op, basedOn] = line.split(' ');
        return { op, basedOn };
      });
    const set = ((await this.redis.get('set')) ?? '').split(' ').filter(Boolean);
    return { register: await log('register:log'), fenced: await log('fenced:log'), set };
  }

  close(): void {
    this.redis.disconnect();
  }
}
