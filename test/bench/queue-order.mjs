// Who went before whom by the server's own order: MONITOR shows the commands inside of the scripts one after the other.
import { deepStrictEqual, throws } from 'node:assert';
import { once } from 'node:events';
import { connect } from 'node:net';

/** Listens to every command of a server; it is only kept, so that it costs the measured processes as little as can be. */
export async function monitor(url) {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const heard = [];
  socket.on('data', (chunk) => heard.push(chunk));
  socket.write('MONITOR\r\n');
  await once(socket, 'data');
  return {
    /** What was executed since; the server closes behind the last of it. */
    async stop() {
      const closed = once(socket, 'close');
      socket.write('QUIT\r\n');
      await closed;
      return Buffer.concat(heard).toString('latin1');
    },
  };
}

/**
 * What happened to one key.
 *
 * @typedef {{ kind: 'join' | 'leave', owner: string } | { kind: 'grant', owner: string, token: number }} QueueEvent
 * @param {string} heard
 * @returns {QueueEvent[]}
 */
export function eventsOf(key, heard) {
  const queue = `${key}|queue`;
  const events = [];
  for (const line of heard.split('\r\n')) {
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
 * An owner, and so the process that asks with it, waits from when it joins the queue until it is granted the lock.
 *
 * - **overtaken** by every grant, during that wait, to an owner that joined later or not at all;
 * - **before**: the acquisitions of other processes that went before it. Tokens order them. Whoever held the lock when it
 *   joined is counted with all of them, also those that were over by then: more than it really waited for, never less.
 *
 * - **between**: the acquisitions of other processes between two of one process that always wants the lock. Beyond **before**
 *   is what went by after its release and before its next ask was in the queue.
 *
 * @param {readonly QueueEvent[]} events
 * @param {readonly Float64Array[]} acquired the tokens of all acquisitions, one list a process
 * @param {number} localPasses how often a grant may be passed on at most
 */
export function queueOrder(events, acquired, localPasses) {
  const tokens = acquired.map((own) => own.toSorted());
  const processOf = matched(events, tokens, localPasses);
  const waits = waitsIn(events).filter(({ left }) => !left);
  if (waits.length === 0) throw new Error('MONITOR showed nobody who waited in the queue.');
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
    // Who is granted the lock by its own ask leaves the queue first.
    known.left = false;
    known.until = Math.min(known.until, token);
  }
  return [...waits.values()];
}

/** Whose the instances are. Throws if what the server did and what the processes had do not fit: then something was missed. */
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
        throw new Error(`The token ${token} was set aside for another process.`);
      processOf.set(instance, process);
    }
  });
  return processOf;
}

const instanceOf = (owner) => owner.slice(0, owner.lastIndexOf(':'));

/** How many of them, in ascending order, are below. */
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

/** Proves that overtaking is seen where there is some, and that what is missing is noticed. */
export function checkQueueOrder() {
  const lua = (...words) => `+1795251048.038314 [0 lua] ${words.map((word) => `"${word}"`).join(' ')}\r\n`;
  const join = (owner, ticket) => lua('ZADD', '{k}:1|queue', 'NX', ticket, owner);
  const leave = (owner) => lua('ZREM', '{k}:1|queue', owner);
  const grant = (owner, token) =>
    lua('SET', '{k}|fence', token + 2, 'EX', '86400') + lua('SET', '{k}:1', `${owner} ${token}`, 'PX', '3000');
  const heard = [
    '+OK\r\n+1795251048.038 [0 127.0.0.1:50816] "evalsha" "93fc78" "3" "{k}:1" "{k}|fence" "{k}:1|queue" "a:1"\r\n',
    grant('a:1', 100),
    join('b:1', 1) + join('c:1', 2) + join('b:1', 3),
    lua('ZADD', '{k}:11|queue', 'NX', 1, 'd:9') + lua('SET', '{k}:11', 'd:9 150', 'PX', '3000'),
    grant('b:1', 200),
    join('a:2', 4),
    // In front of c.
    grant('a:2', 300),
    // The same, out of nowhere.
    grant('d:1', 400),
    join('b:2', 5) + join('e:1', 6) + leave('e:1'),
    leave('c:1') + grant('c:1', 500),
    grant('b:2', 600),
  ].join('');
  const events = eventsOf('{k}:1', heard);
  const acquired = [[102, 100, 101, 300], [200, 600], [500], [400, 401]].map((own) => Float64Array.from(own));
  // b:1 saw 3 before it (all of a:1), c:1 saw 7, a:2 saw 1, b:2 saw 3.
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
  throws(() => queueOrder(withoutJoins, acquired, 2), /nobody who waited/);
}
