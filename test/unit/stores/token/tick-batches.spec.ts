import { describe, expect, it } from '@jest/globals';
import { whenReplied } from '../../../../lib/core/store/pending-reply.js';
import {
  type BatchSender,
  type Entry,
  type RepliesTogether,
  TickBatches,
} from '../../../../lib/stores/token/tick-batches.js';

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
  /** The owners whose requests were sent alone, in one packet with others. */
  readonly besideOthers: string[] = [];
  /** How many times two requests were compared. */
  compared = 0;
  answer = (requests: readonly Request[]): RepliesTogether<string> | undefined =>
    Promise.resolve(requests.map(({ owner }) => `${owner} together`));

  constructor(
    private readonly kind: string,
    private readonly sent: string[],
  ) {}

  groupOf({ slot }: Request): string {
    return `${slot}`;
  }

  fits(first: Request, next: Request): boolean {
    this.compared += 1;
    return first.mode === next.mode;
  }

  sendAlone(entry: Entry<Request, string>, hasOthers: boolean): void {
    const { owner } = entry.request;
    this.sent.push(`${this.kind} ${owner}`);
    if (hasOthers) this.besideOthers.push(owner);
    entry.resolve(`${owner} alone`);
  }

  sendTogether(requests: readonly Request[]): RepliesTogether<string> | undefined {
    this.sent.push(`${this.kind} ${requests.map(({ owner }) => owner).join('+')}`);
    return this.answer(requests);
  }
}

function setUp() {
  const sent: string[] = [];
  const [acquires, releases, extensions] = ['acquire', 'release', 'extend'].map((kind) => new Recorder(kind, sent));
  const clock = { time: 0, now: () => clock.time };
  const tick = new TickBatches(clock, acquires, releases, extensions);
  const toRequest = ({ key, ...request }: Made): Request => ({ ...request, keys: [key ?? request.owner] });
  const batches = {
    acquire: (made: Made) => tick.acquire(toRequest(made)),
    release: (made: Made) => tick.release(toRequest(made)),
    extend: (...made: readonly Made[]) => tick.extend(made.map(toRequest)),
    cancel: (owner: string, reply: string) => tick.cancel(owner, reply),
    flush: () => tick.flush(),
  };
  return { sent, acquires, releases, clock, batches };
}

/** Returns each reply, or its error as text. */
const settledOf = (replies: readonly PromiseLike<string>[]): Promise<string[]> =>
  Promise.all(replies.map((reply) => reply.then(undefined, String)));

describe('TickBatches', () => {
  it('sends a request after the promise jobs', async () => {
    const { batches, sent, acquires } = setUp();
    const reply = batches.acquire({ owner: 'a' });
    for (let jobs = 0; jobs < 100; jobs++) await Promise.resolve();
    expect(sent).toEqual([]);
    expect(await reply).toBe('a alone');
    expect(sent).toEqual(['acquire a']);
    expect(acquires.besideOthers).toEqual([]);
  });

  it('sends renewals at once, behind the releases that wait, and before the acquires', async () => {
    const { batches, sent } = setUp();
    const replies = [batches.acquire({ owner: 'a' }), batches.release({ owner: 'b' })];
    const renewed = batches.extend({ owner: 'c' }, { owner: 'd' }, { owner: 'e', mode: 'shared' });
    expect(sent).toEqual(['release b', 'extend c+d', 'extend e', 'acquire a']);
    expect(await settledOf(renewed)).toEqual(['c together', 'd together', 'e alone']);
    expect(await settledOf(replies)).toEqual(['a alone', 'b alone']);
  });

  it('sends the requests together that promise jobs make one after the other', async () => {
    const { batches, sent } = setUp();
    const later = async (owner: string, jobs: number): Promise<string> => {
      for (let job = 0; job < jobs; job++) await Promise.resolve();
      return batches.acquire({ owner });
    };
    await Promise.all([later('a', 0), later('b', 3), later('c', 20)]);
    expect(sent).toEqual(['acquire a+b+c']);
  });

  it('sends a request alone if no other one fits it, in one packet with the others', async () => {
    const { batches, acquires, sent } = setUp();
    const requests = [1, 2, 3, 2].map((slot, i) => ({ owner: `${i}`, slot }));
    const replies = await Promise.all(requests.map((request) => batches.acquire(request)));
    expect(replies).toEqual(['0 alone', '1 together', '2 alone', '3 together']);
    expect(sent).toEqual(['acquire 0', 'acquire 1+3', 'acquire 2']);
    expect(acquires.besideOthers).toEqual(['0', '2']);
  });

  it('sends requests of one group by several calls if one call cannot do them all', async () => {
    const { batches, sent } = setUp();
    const requests = ['read', 'write', 'read', 'write'].map((mode, i) => ({ owner: `${i}`, mode }));
    await Promise.all(requests.map((request) => batches.acquire(request)));
    expect(sent).toEqual(['acquire 0+2', 'acquire 1+3']);
  });

  it('compares each request with a few others only, however many differ', async () => {
    const { batches, releases, sent } = setUp();
    const modes = Array.from({ length: 1_000 }, (_, i) => `${i}`);
    await Promise.all([...modes, ...modes.slice(-5)].map((mode) => batches.release({ owner: mode, mode })));
    expect(releases.compared).toBeLessThan(1_005 * 33);
    expect(sent).toHaveLength(1_000);
    expect(sent.at(-1)).toBe('release 999+999');
  });

  it('keeps the order of requests for one key that do not travel together', async () => {
    const { batches, sent } = setUp();
    const requests = [
      { owner: 'writer', key: 'k', mode: 'write' },
      { owner: 'other writer', key: 'l', mode: 'write' },
      { owner: 'reader', key: 'k', mode: 'read' },
      { owner: 'other reader', key: 'm', mode: 'read' },
      { owner: 'last writer', key: 'm', mode: 'write' },
    ];
    await Promise.all(requests.map((request) => batches.acquire(request)));
    expect(sent).toEqual(['acquire writer+other writer', 'acquire reader+other reader', 'acquire last writer']);
  });

  it('sends releases before acquires, because they may free what is acquired', async () => {
    const { batches, sent } = setUp();
    const replies = ['a', 'b'].flatMap((owner) => [
      batches.acquire({ owner }),
      batches.release({ owner: owner.toUpperCase() }),
    ]);
    await Promise.all(replies);
    expect(sent).toEqual(['release A+B', 'acquire a+b']);
  });

  it('sends no more than 64 requests together, and does not keep those back', async () => {
    const { batches, sent } = setUp();
    const replies = Array.from({ length: 200 }, (_, i) => batches.release({ owner: `${i}` }));
    expect(sent).toHaveLength(3);
    await Promise.all(replies);
    expect(sent.map((line) => line.split('+').length)).toEqual([64, 64, 64, 8]);
  });

  it('does not keep requests back while their callers block the event loop', () => {
    const { batches, sent, clock } = setUp();
    for (const [owner, time] of [
      ['a', 0],
      ['b', 1],
      ['c', 2],
      ['d', 3],
    ] as const) {
      clock.time = time;
      void batches.release({ owner });
    }
    // The time is read from the second request on, so that a request alone does not read it.
    expect(sent).toEqual(['release a+b+c']);
  });

  it('sends what it has collected if a later request must not overtake it', async () => {
    const { batches, sent } = setUp();
    const replies = ['a', 'b'].map((owner) => batches.release({ owner }));
    batches.flush();
    expect(sent).toEqual(['release a+b']);
    await Promise.all(replies);
    await tickEnds();
    expect(sent).toHaveLength(1);
  });

  it('does not send a cancelled request', async () => {
    const { batches, sent } = setUp();
    const replies = ['a', 'b', 'c'].map((owner) => batches.acquire({ owner }));
    const cancelled = ['b', 'never made', 'b'].map((owner) => batches.cancel(owner, 'cancelled'));
    expect(cancelled).toEqual([true, false, false]);
    expect(await Promise.all(replies)).toEqual(['a together', 'cancelled', 'c together']);
    expect(sent).toEqual(['acquire a+c']);
    expect(batches.cancel('a', 'cancelled')).toBe(false);
  });

  it('sends nothing if all requests are cancelled', async () => {
    const { batches, sent } = setUp();
    const reply = batches.acquire({ owner: 'a' });
    batches.cancel('a', 'cancelled');
    expect(await reply).toBe('cancelled');
    await tickEnds();
    expect(sent).toEqual([]);
  });

  it('rejects only the request whose reply is an error', async () => {
    const { batches, acquires } = setUp();
    acquires.answer = async () => ['granted', new Error('wrong type'), 'held'];
    const replies = ['a', 'b', 'c'].map((owner) => batches.acquire({ owner }));
    expect(await settledOf(replies)).toEqual(['granted', 'Error: wrong type', 'held']);
  });

  it('sends each request alone if the server has refused them as a whole', async () => {
    const { batches, acquires, sent } = setUp();
    acquires.answer = async () => undefined;
    const replies = ['a', 'b'].map((owner) => batches.acquire({ owner }));
    expect(await settledOf(replies)).toEqual(['a alone', 'b alone']);
    expect(sent).toEqual(['acquire a+b', 'acquire a', 'acquire b']);
    expect(acquires.besideOthers).toEqual(['a', 'b']);
  });

  it('sends each request alone and in order if the sender does not send them together', async () => {
    const { batches, acquires, releases, sent } = setUp();
    releases.answer = () => undefined;
    acquires.answer = () => undefined;
    const replies = ['a', 'b'].flatMap((owner) => [
      batches.acquire({ owner }),
      batches.release({ owner: owner.toUpperCase() }),
    ]);
    await Promise.all(replies);
    const alone = sent.filter((line) => !line.includes('+'));
    expect(alone).toEqual(['release A', 'release B', 'acquire a', 'acquire b']);
  });

  it('gives a cancelled request its reply after its caller has gone on', async () => {
    const { batches } = setUp();
    const log: unknown[] = [];
    const note = (outcome: unknown): void => void log.push(outcome);
    whenReplied(batches.acquire({ owner: 'a' }), { onReply: note, onFailed: note });
    expect(batches.cancel('a', 'cancelled')).toBe(true);
    expect(log).toEqual([]);
    await tickEnds();
    expect(log).toEqual(['cancelled']);
  });

  it('does not send a request again whose owner was released meanwhile', async () => {
    const { batches, acquires, sent } = setUp();
    let refuse = (): void => undefined;
    acquires.answer = () => new Promise((resolve) => (refuse = () => resolve(undefined)));
    const replies = ['a', 'b', 'c'].map((owner) => batches.acquire({ owner }));
    await tickEnds();
    // It was sent, so a release has to follow.
    expect(batches.cancel('b', 'cancelled')).toBe(false);
    refuse();
    expect(await settledOf(replies)).toEqual(['a alone', 'cancelled', 'c alone']);
    expect(sent).toEqual(['acquire a+b+c', 'acquire a', 'acquire c']);
  });

  it('returns the reply to a request that was sent, although its owner was released meanwhile', async () => {
    const { batches, acquires } = setUp();
    let grant = (): void => undefined;
    acquires.answer = () => new Promise((resolve) => (grant = () => resolve(['granted', 'granted'])));
    const replies = ['a', 'b'].map((owner) => batches.acquire({ owner }));
    await tickEnds();
    batches.cancel('a', 'cancelled');
    grant();
    expect(await settledOf(replies)).toEqual(['granted', 'granted']);
  });

  it('rejects all requests that a lost connection leaves without a reply', async () => {
    const { batches, releases } = setUp();
    releases.answer = () => Promise.reject(new Error('no connection'));
    const replies = ['a', 'b'].map((owner) => batches.release({ owner }));
    expect(await settledOf(replies)).toEqual(['Error: no connection', 'Error: no connection']);
  });
});
