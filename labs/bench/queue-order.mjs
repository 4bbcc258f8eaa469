// Overtakes by the server's order: MONITOR shows the commands inside the scripts one after another.
import { deepStrictEqual, throws } from 'node:assert';
import { once } from 'node:events';
import { connect } from 'node:net';

/** Records every command of a server. It evaluates nothing meanwhile, to disturb the measured processes little. */
export async function monitor(url) {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const recorded = [];
  socket.on('data', (chunk) => recorded.push(chunk));
  socket.write('MONITOR\r\n');
  await once(socket, 'data');
  return {
    /** Returns the commands since the start. The server closes the connection after the last one. */
    async stop() {
      const closed = once(socket, 'close');
      socket.write('QUIT\r\n');
      await closed;
      return Buffer.concat(recorded).toString('latin1');
    },
  };
}

/**
 * Returns the queue events of one key.
 *
 * @typedef {{ kind: 'join' | 'leave', owner: string } | { kind: 'grant', owner: string, token: number }} QueueEvent
 * @param {string} recorded
 * @returns {QueueEvent[]}
 */
export function eventsOf(key, recorded) {
  const queue = `${key}|queue`;
  const events = [];
  for (const line of recorded.split('\r\n')) {
    if (!line.includes(key)) continue;
    const [command, on, ...args] = Array.from(line.matchAll(/"((?:[^"\\]|\\.)*)"/g), ([, word]) => word);
    if (command === 'ZADD' && on === queue) events.push({ kind: 'join', owner: args[2] });
    if (command === 'ZREM' && on === queue) events.push({ kind: 'leave', owner: args[0] });
    if (command === 'SET' && on === key) {
      const [owner, token] = args[0].split(' ');
      events.push({ kind: 'grant', owner, token: Number(token) });
    }
  }
  return events;
}

/**
 * Returns the counts of each wait. An owner, and its process, waits from joining the queue until its grant.
 *
 * - **overtaken**: the grants during that wait to owners that joined later or not at all. - **before**: the
 * acquisitions of other processes before it, ordered by tokens. All acquisitions of the holder at the time
 *   of joining are counted, including those that were over: an upper bound.
 *
 * - **between**: the acquisitions of other processes between two of one process that always wants the lock. It exceeds
 *   **before** by the grants between its release and its next entry in the queue.
 *
 * @param {readonly QueueEvent[]} events
 * @param {readonly Float64Array[]} acquired the tokens of all acquisitions, one list per process
 * @param {number} localPasses the most local handoffs per grant
 */
export function queueOrder(events, acquired, localPasses) {
  const tokens = acquired.map((own) => own.toSorted());
  const processOf = matched(events, tokens, localPasses);
  const waits = waitsIn(events).filter(({ left }) => !left);
  if (waits.length === 0) throw new Error('MONITOR showed no waiter in the queue.');
  const others = (process, from, until) =>
    tokens
      .filter((_, other) => other !== process)
      .reduce((total, theirs) => total + countBelow(theirs, until) - countBelow(theirs, from), 0);
  const before = waits.map(({ owner, from, until }) => others(processOf.get(instanceOf(owner)), from, until));
  const between = tokens.flatMap((own, process) =>
    Array.from(own.subarray(1), (token, i) => others(process, own[i], token)).filter((count) => count > 0),
  );
  const overtaken = waits.map((wait) => wait.overtaken);
  return { waits: waits.length, overtaken: spread(overtaken), before: spread(before), between: spread(between) };
}

function waitsIn(events) {
  const waits = new Map();
  const standing = new Set();
  let held = -Infinity;
  for (const { kind, owner, token } of events) {
    const known = waits.get(owner);
    if (kind === 'join' && known === undefined) {
      const wait = { owner, place: waits.size, overtaken: 0, from: held, until: Infinity, left: false };
      waits.set(owner, wait);
      standing.add(wait);
    }
    if (kind === 'leave' && standing.delete(known)) known.left = true;
    if (kind !== 'grant') continue;
    held = token;
    standing.delete(known);
    for (const other of standing) if (other.place < (known?.place ?? Infinity)) other.overtaken += 1;
    if (known === undefined) continue;
    // An owner that is granted the lock by its own request leaves the queue first.
    known.left = false;
    known.until = Math.min(known.until, token);
  }
  return [...waits.values()];
}

/** Returns the process of each instance. Throws if the grants of the server and of the processes do not match. */
function matched(events, tokens, localPasses) {
  const grants = events.filter(({ kind }) => kind === 'grant');
  const firsts = Float64Array.from(grants, ({ token }) => token);
  if (firsts.some((token, i) => i > 0 && !(token > firsts[i - 1])))
    throw new Error('Tokens fell in the order of grants.');
  const processOf = new Map();
  tokens.forEach((own, process) => {
    for (const token of own) {
      const grant = grants[countBelow(firsts, token + 1) - 1];
      if (grant === undefined || token > grant.token + localPasses)
        throw new Error(`MONITOR did not show the grant of the token ${token}.`);
      const instance = instanceOf(grant.owner);
      if ((processOf.get(instance) ?? process) !== process)
        throw new Error(`The token ${token} was reserved for another process.`);
      processOf.set(instance, process);
    }
  });
  return processOf;
}

const instanceOf = (owner) => owner.slice(0, owner.lastIndexOf(':'));

/** Returns how many values of an ascending list are lower. */
function countBelow(sorted, limit) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

const spread = (counts) => ({
  mean: counts.reduce((total, count) => total + count, 0) / counts.length,
  most: Math.max(...counts),
});

/** Verifies that overtakes are counted and that missing grants are noticed. */
export function checkQueueOrder() {
  const lua = (...words) => `+1795251048.038314 [0 lua] ${words.map((word) => `"${word}"`).join(' ')}\r\n`;
  const join = (owner, ticket) => lua('ZADD', '{k}:1|queue', 'NX', ticket, owner);
  const leave = (owner) => lua('ZREM', '{k}:1|queue', owner);
  const grant = (owner, token) =>
    lua('SET', '{k}|fence', token + 2, 'EX', '86400') + lua('SET', '{k}:1', `${owner} ${token}`, 'PX', '3000');
  const recorded = [
    '+OK\r\n+1795251048.038 [0 127.0.0.1:50816] "evalsha" "93fc78" "3" "{k}:1" "{k}|fence" "{k}:1|queue" "a:1"\r\n',
    grant('a:1', 100),
    join('b:1', 1) + join('c:1', 2) + join('b:1', 3),
    lua('ZADD', '{k}:11|queue', 'NX', 1, 'd:9') + lua('SET', '{k}:11', 'd:9 150', 'PX', '3000'),
    grant('b:1', 200),
    join('a:2', 4),
    // It overtakes c.
    grant('a:2', 300),
    // It overtakes without having joined.
    grant('d:1', 400),
    join('b:2', 5) + join('e:1', 6) + leave('e:1'),
    leave('c:1') + grant('c:1', 500),
    grant('b:2', 600),
  ].join('');
  const events = eventsOf('{k}:1', recorded);
  const acquired = [[102, 100, 101, 300], [200, 600], [500], [400, 401]].map((own) => Float64Array.from(own));
  // 3 acquisitions before b:1 (all of a:1), 7 before c:1, 1 before a:2, 3 before b:2.
  const expected = {
    waits: 4,
    overtaken: { mean: 0.5, most: 2 },
    before: { mean: 3.5, most: 7 },
    // 1 between 102 and 300, 4 between 200 and 600.
    between: { mean: 2.5, most: 4 },
  };
  deepStrictEqual(queueOrder(events, acquired, 2), expected);
  throws(() => queueOrder(events, acquired, 1), /did not show the grant of the token 102/);
  throws(() => queueOrder(events.toReversed(), acquired, 2), /Tokens fell/);
  throws(() => queueOrder(events, [...acquired.slice(0, 3), Float64Array.of(201)], 2), /for another process/);
  const withoutJoins = events.filter(({ kind }) => kind !== 'join');
  throws(() => queueOrder(withoutJoins, acquired, 2), /no waiter/);
}
