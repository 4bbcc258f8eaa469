import { Redis } from 'ioredis';
import { StaleFenceError } from '../../../../lib/common/errors.js';
import { RedisFence } from '../../../../lib/fence/redis-fence.js';
import type { Write } from '../history/events.js';

/** What a caller read before its pause. */
export interface Seen {
  readonly register: string;
  readonly fenced: string;
  readonly set: string;
  /** False if the fence has seen a higher token: the fenced register was not read. */
  readonly opened: boolean;
}

/** How a process uses the resource. */
interface Use {
  /** False: nothing checks tokens. */
  readonly fenceOn: boolean;
  readonly random: () => number;
}

/** Each register logs its writers, and the operation whose value each had read. */
const WRITE = `
redis.call('SET', KEYS[1], ARGV[1])
redis.call('RPUSH', KEYS[2], ARGV[1] .. ' ' .. ARGV[2])`;
const FENCED_KEYS = ['fenced', 'fenced:log'];

/** How often the connection of a fenced write is cut. */
const CUT = 1 / 16;

/**
 * The protected resource on its own server: a register, a register behind a `RedisFence`, and a set that is read and
 * written back with one more element. Each visit reads and writes all three, so a single fault affects all of them.
 */
export class Resource {
  private readonly redis: Redis;
  /** The connection of the fenced register. A client that repeats a write does not know whether its first one was. */
  private readonly fencedRedis: Redis;
  private readonly fence: RedisFence;

  constructor(
    url: string,
    private readonly use: Use = { fenceOn: true, random: () => 1 },
  ) {
    this.redis = new Redis(url);
    this.fencedRedis = new Redis(url, { maxRetriesPerRequest: 0, retryStrategy: () => 1 });
    this.fencedRedis.on('error', () => undefined);
    this.fence = new RedisFence(this.fencedRedis, 'fenced');
  }

  /**
   * Opens the fence before the first read, so that no late writer overwrites what is read now.
   *
   * @param token undefined if the store has none. Then the fenced register is not used.
   */
  async open(token: number | undefined): Promise<Seen> {
    const opened = token !== undefined && (await this.openFence(token));
    const [register, fenced, set] = await this.redis.mget('register', 'fenced', 'set');
    return { register: register ?? '', fenced: fenced ?? '', set: set ?? '', opened };
  }

  /** Returns whether the fence admitted the write. Null: its reply was lost. */
  async write(op: string, token: number | undefined, { register, fenced, set, opened }: Seen): Promise<boolean | null> {
    await this.redis
      .multi()
      .set('set', set === '' ? op : `${set} ${op}`)
      .eval(WRITE, 2, 'register', 'register:log', op, register)
      .exec();
    return opened && token !== undefined && this.writeFenced(token, [op, fenced]);
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
    this.fencedRedis.disconnect();
  }

  private async openFence(token: number): Promise<boolean> {
    if (!this.use.fenceOn) return true;
    return this.fence.open(token).then(() => true, refused);
  }

  private async writeFenced(token: number, args: readonly string[]): Promise<boolean | null> {
    const { fencedRedis, use } = this;
    const cut = use.random();
    // Before it is sent, so that it never arrives. Or after that, so that only its reply does not.
    if (cut < CUT / 2) fencedRedis.stream.destroy();
    const written = use.fenceOn
      ? this.fence.write(token, { lua: WRITE, keys: FENCED_KEYS, args })
      : fencedRedis.eval(WRITE, FENCED_KEYS.length, ...FENCED_KEYS, ...args);
    if (cut >= CUT / 2 && cut < CUT) fencedRedis.stream.destroy();
    return written.then(() => true, refused).catch(() => null);
  }
}

function refused(error: unknown): false {
  if (error instanceof StaleFenceError) return false;
  throw error;
}
