import { describe, expect, it } from '@jest/globals';
import type { CorkEnd } from '../../../../lib/redis/redis-connection.js';
import { type BatchSender, type RepliesTogether, TickBatches } from '../../../../lib/stores/token/tick-batches.js';

const tickEnds = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

interface Request {
  readonly owner: string;
  readonly keys: readonly string[];
  readonly slot?: number;
  readonly mode?: string;
}

/** A request as the tests make it. Its key is its owner by default. */
type Made = Omit<Request, 'keys'> & { readonly key?: string };

/** Records what is sent. `answer` returns the replies to requests that travel together. */
class Recorder implements BatchSender<Request, string> {
  /** The owners whose requests were sent alone, but with others of their tick. */
  readonly collected: string[] = [];
  /** The owners whose requests wait for others in one packet until the tick ends. */
  readonly corked: string[] = [];
  /** How many times two requests were compared. */
  compared = 0;
  answer = (requests: readonly Request[]): RepliesTogether<string> | undefined =>
    Promise.resolve(requests.map(({ owner }) => `${owner} together`));

  constructor(
    private readonly kind: string,
    private readonly sent: string[],
    private readonly onReply: (request: Request) => void,
  ) {}

  groupOf({ slot }: Request): string {
    return `${slot}`;
  }

  fits(first: Request, next: Request): boolean {
    this.compared += 1;
    return first.mode === next.mode;
  }

  sendAlone(request: Request, cork?: CorkEnd): Promise<string> {
    const { owner } = request;
    this.sent.push(`${this.kind} ${owner}`);
    if (cork === 'microtask') this.collected.push(owner);
    if (cork === 'tick') this.corked.push(owner);
    // A reply is read after the tick.
    return tickEnds()
      .then(tickEnds)
      .then(() => {
        this.onReply(request);
        return `${owner} alone`;
      });
  }

  sendTogether(requests: readonly Request[]): RepliesTogether<string> | undefined {
    this.sent.push(`${this.kind} ${requests.map(({ owner }) => owner).join('+')}`);
    return this.answer(requests);
  }
}

function setUp() {
  const sent: string[] = [];
  const recorderOf = (kind: string) => new Recorder(kind, sent, (request) => tick.onReply(request));
  const [acquires, releases] = [recorderOf('acquire'), recorderOf('release')];
  const clock = { time: 0, now: () => clock.time };
  const tick: TickBatches<Request, string, Request, string> = new TickBatches(clock, acquires, releases);
  const toRequest = ({ key, ...request }: Made): Request => ({ ...request, keys: [key ?? request.owner] });
  const batches = {
    acquire: (made: Made) => tick.acquire(toRequest(made)),
    release: (made: Made) => tick.release(toRequest(made)),
    cancel: (owner: string, reply: string) => tick.cancel(owner, reply),
    flush: () => tick.flush(),
  };
  return { sent, acquires, releases, clock, batches };
}

/** Returns what each promise resolves with, or its error as text. */
const settledOf = (promises: readonly Promise<string>[]): Promise<string[]> =>
  Promise.all(promises.map((promise) => promise.catch(String)));

describe('TickBatches', () => {
  it('sends the first request of a tick at once, and the others together when the tick ends', async () => {
    const { batches, sent } = setUp();
    const replies = ['a', 'b', 'c'].map((owner) => batches.acquire({ owner }));
    expect(sent).toEqual(['acquire a']);
    expect(await Promise.all(replies)).toEqual(['a alone', 'b together', 'c together']);
    expect(sent).toEqual(['acquire a', 'acquire b+c']);
  });

  it('collects the first request, too, if several were made in the tick before', async () => {
    const { batches, sent } = setUp();
    const tick = (...owners: string[]) => Promise.all(owners.map((owner) => batches.acquire({ owner })));
    await tick('a', 'b', 'c');
    await tick('d', 'e');
    await tick('f');
    await tick('g');
    expect(sent).toEqual(['acquire a', 'acquire b+c', 'acquire d+e', 'acquire f', 'acquire g']);
    const { batches: idle, sent: sentAtOnce } = setUp();
    for (const owner of ['a', 'b']) {
      const reply = idle.release({ owner });
      expect(sentAtOnce.at(-1)).toBe(`release ${owner}`);
      await reply;
    }
  });

  it('sends a request at once in a tick without others, although one before has no reply yet', async () => {
    const { batches, sent } = setUp();
    for (const owner of ['a', 'b']) void batches.acquire({ owner });
    await tickEnds();
    void batches.acquire({ owner: 'c' });
    void batches.release({ owner: 'd' });
    expect(sent).toEqual(['acquire a', 'acquire b']);
    await tickEnds();
    void batches.acquire({ owner: 'e' });
    expect(sent).toEqual(['acquire a', 'acquire b', 'release d', 'acquire c', 'acquire e']);
  });

  it('sends the first release and the first acquire of a tick at once', async () => {
    const { batches, releases, sent } = setUp();
    for (const round of [1, 2, 3]) {
      const replies = [batches.release({ owner: `r${round}` }), batches.acquire({ owner: `a${round}` })];
      expect(sent.slice(-2)).toEqual([`release r${round}`, `acquire a${round}`]);
      await Promise.all(replies);
    }
    // From the second time on, both leave in one packet.
    expect(releases.corked).toEqual(['r2', 'r3']);
    await batches.release({ owner: 'r4' });
    await batches.release({ owner: 'r5' });
    expect(releases.corked).toEqual(['r2', 'r3', 'r4']);
  });

  it('sends a request alone if no other one of its tick fits it', async () => {
    const { batches, acquires, sent } = setUp();
    const requests = [1, 1, 2, 3, 2].map((slot, i) => ({ owner: `${i}`, slot }));
    expect(await Promise.all(requests.map((request) => batches.acquire(request)))).toEqual([
      '0 alone',
      '1 alone',
      '2 together',
      '3 alone',
      '4 together',
    ]);
    expect(sent).toEqual(['acquire 0', 'acquire 1', 'acquire 2+4', 'acquire 3']);
    expect(acquires.collected).toEqual(['1', '3']);
  });

  it('sends requests of one group by several calls if one call cannot do them all', async () => {
    const { batches, sent } = setUp();
    const requests = ['read', 'write', 'read', 'write'].map((mode, i) => ({ owner: `${i}`, mode }));
    for (const request of [{ owner: 'first' }, ...requests]) void batches.acquire(request);
    await tickEnds();
    expect(sent).toEqual(['acquire first', 'acquire 0+2', 'acquire 1+3']);
  });

  it('compares each request with a few others only, however many differ', async () => {
    const { batches, releases, sent } = setUp();
    const modes = Array.from({ length: 1_000 }, (_, i) => `${i}`);
    for (const mode of ['first', ...modes, ...modes.slice(-5)]) void batches.release({ owner: mode, mode });
    await tickEnds();
    expect(releases.compared).toBeLessThan(1_005 * 33);
    expect(sent).toHaveLength(1_001);
    expect(sent.at(-1)).toBe('release 999+999');
  });

  it('keeps the order of requests for one key that do not travel together', async () => {
    const { batches, sent } = setUp();
    const requests = [
      { owner: 'first', key: 'a', slot: 1 },
      { owner: 'reader', key: 'b', slot: 2 },
      { owner: 'writer', key: 'k', slot: 1 },
      { owner: 'late reader', key: 'k', slot: 2 },
      { owner: 'late writer', key: 'k', slot: 1 },
    ];
    await Promise.all(requests.map((request) => batches.acquire(request)));
    expect(sent.map((line) => line.replace('acquire ', ''))).toEqual(requests.map(({ owner }) => owner));
  });

  it('keeps the order of requests for one key if the first is in the only batch', async () => {
    const { batches, sent } = setUp();
    const requests = [
      { owner: 'first', key: 'a' },
      { owner: 'writer', key: 'k', mode: 'write' },
      { owner: 'other writer', key: 'l', mode: 'write' },
      { owner: 'reader', key: 'k', mode: 'read' },
      { owner: 'other reader', key: 'm', mode: 'read' },
      { owner: 'last writer', key: 'm', mode: 'write' },
    ];
    await Promise.all(requests.map((request) => batches.acquire(request)));
    expect(sent.slice(1)).toEqual([
      'acquire writer+other writer',
      'acquire reader+other reader',
      'acquire last writer',
    ]);
  });

  it('sends releases before acquires, because they may free what is acquired', async () => {
    const { batches, sent } = setUp();
    for (const owner of ['a', 'b', 'c']) {
      void batches.acquire({ owner });
      void batches.release({ owner: owner.toUpperCase() });
    }
    await tickEnds();
    expect(sent).toEqual(['acquire a', 'release A', 'release B+C', 'acquire b+c']);
  });

  it('sends the next acquire request for a lock at once behind its release', async () => {
    const { batches, acquires, sent } = setUp();
    void batches.release({ owner: 'old', key: 'k' });
    for (const owner of ['a', 'b']) void batches.acquire({ owner });
    void batches.acquire({ owner: 'next', key: 'k' });
    expect(sent).toEqual(['release old', 'acquire a', 'acquire b', 'acquire next']);
    void batches.acquire({ owner: 'later', key: 'k' });
    await tickEnds();
    expect(sent.slice(4)).toEqual(['acquire later']);
    expect(acquires.collected).toEqual(['b', 'later']);
  });

  it('sends an acquire request after the reply to the release like any other', async () => {
    const { batches, sent } = setUp();
    await batches.release({ owner: 'old', key: 'k' });
    for (const key of ['first', 'k', 'l']) void batches.acquire({ owner: key, key });
    await tickEnds();
    expect(sent).toEqual(['release old', 'acquire first', 'acquire k+l']);
  });

  it('sends no more than 64 requests together', async () => {
    const { batches, sent } = setUp();
    await Promise.all(Array.from({ length: 200 }, (_, i) => batches.release({ owner: `${i}` })));
    expect(sent.map((line) => line.split('+').length)).toEqual([1, 64, 64, 64, 7]);
  });

  it('collects the requests of all callbacks of the tick: of timers, promises and sockets', async () => {
    const { batches, sent } = setUp();
    const afterTimer = (owner: string) =>
      new Promise<string>((resolve) => setTimeout(() => resolve(batches.acquire({ owner })), 1));
    const later = ['a', 'b', 'c'].map(afterTimer);
    // All three timers are due by then, and run in one tick.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    await Promise.all(later);
    expect(sent).toEqual(['acquire a', 'acquire b+c']);
  });

  it('does not keep requests back while the callers of their tick block the event loop', () => {
    const { batches, sent, clock } = setUp();
    for (const [owner, time] of [
      ['a', 0],
      ['b', 0],
      ['c', 1],
      ['d', 2],
    ] as const) {
      clock.time = time;
      void batches.release({ owner });
    }
    expect(sent).toEqual(['release a', 'release b+c']);
  });

  it('sends what it has collected if a later request must not overtake it', async () => {
    const { batches, sent } = setUp();
    for (const owner of ['a', 'b', 'c']) void batches.release({ owner });
    batches.flush();
    expect(sent).toEqual(['release a', 'release b+c']);
    await tickEnds();
    expect(sent).toHaveLength(2);
  });

  it('does not send a cancelled request', async () => {
    const { batches, sent } = setUp();
    const replies = ['a', 'b', 'c', 'd'].map((owner) => batches.acquire({ owner }));
    const cancelled = ['a', 'c', 'never made', 'c'].map((owner) => batches.cancel(owner, 'cancelled'));
    expect(cancelled).toEqual([false, true, false, false]);
    expect(await Promise.all(replies)).toEqual(['a alone', 'b together', 'cancelled', 'd together']);
    expect(sent).toEqual(['acquire a', 'acquire b+d']);
    expect(batches.cancel('b', 'cancelled')).toBe(false);
  });

  it('sends nothing if all requests are cancelled', async () => {
    const { batches, sent } = setUp();
    void batches.acquire({ owner: 'first' });
    const reply = batches.acquire({ owner: 'a' });
    batches.cancel('a', 'cancelled');
    expect(await reply).toBe('cancelled');
    await tickEnds();
    expect(sent).toEqual(['acquire first']);
  });

  it('rejects only the request whose reply is an error', async () => {
    const { batches, acquires } = setUp();
    acquires.answer = async () => ['granted', new Error('wrong type'), 'held'];
    const replies = ['first', 'a', 'b', 'c'].map((owner) => batches.acquire({ owner }));
    expect(await settledOf(replies)).toEqual(['first alone', 'granted', 'Error: wrong type', 'held']);
  });

  it('sends each request alone if the server has refused them as a whole', async () => {
    const { batches, acquires, sent } = setUp();
    acquires.answer = async () => undefined;
    const replies = ['first', 'a', 'b'].map((owner) => batches.acquire({ owner }));
    expect(await settledOf(replies)).toEqual(['first alone', 'a alone', 'b alone']);
    expect(sent).toEqual(['acquire first', 'acquire a+b', 'acquire a', 'acquire b']);
  });

  it('sends each request alone and in order if the sender does not send them together', async () => {
    const { batches, acquires, releases, sent } = setUp();
    releases.answer = () => undefined;
    acquires.answer = () => undefined;
    void batches.release({ owner: 'first' });
    void batches.acquire({ owner: 'next' });
    for (const owner of ['a', 'b']) {
      void batches.acquire({ owner });
      void batches.release({ owner: owner.toUpperCase() });
    }
    await tickEnds();
    const alone = ['release A', 'release B', 'acquire a', 'acquire b'];
    expect(sent.filter((line) => !line.includes('+'))).toEqual(['release first', 'acquire next', ...alone]);
  });

  it('does not send a request again whose owner was released meanwhile', async () => {
    const { batches, acquires, sent } = setUp();
    let refuse = (): void => undefined;
    acquires.answer = () => new Promise((resolve) => (refuse = () => resolve(undefined)));
    const replies = ['first', 'a', 'b', 'c'].map((owner) => batches.acquire({ owner }));
    await tickEnds();
    // It was sent, so a release has to follow.
    expect(batches.cancel('b', 'cancelled')).toBe(false);
    refuse();
    expect(await settledOf(replies)).toEqual(['first alone', 'a alone', 'cancelled', 'c alone']);
    expect(sent).toEqual(['acquire first', 'acquire a+b+c', 'acquire a', 'acquire c']);
  });

  it('returns the reply to a request that was sent, although its owner was released meanwhile', async () => {
    const { batches, acquires } = setUp();
    let grant = (): void => undefined;
    acquires.answer = () => new Promise((resolve) => (grant = () => resolve(['granted', 'granted'])));
    const replies = ['first', 'a', 'b'].map((owner) => batches.acquire({ owner }));
    await tickEnds();
    batches.cancel('a', 'cancelled');
    grant();
    expect(await settledOf(replies)).toEqual(['first alone', 'granted', 'granted']);
  });

  it('rejects all requests that a lost connection leaves without a reply', async () => {
    const { batches, releases } = setUp();
    releases.answer = () => Promise.reject(new Error('no connection'));
    const replies = ['first', 'a', 'b'].map((owner) => batches.release({ owner }));
    expect(await settledOf(replies)).toEqual(['first alone', 'Error: no connection', 'Error: no connection']);
  });
});
