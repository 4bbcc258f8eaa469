// The time of a PUBLISH until its message arrives in another process, and of a round trip there.
import { now } from './clock.mjs';
import { connect } from './library.mjs';

export const message = { name: 'raw PUBLISH → message', kind: 'floor', waiting: 'subscribed' };

export const roundTrip = { name: 'raw round trip', kind: 'floor', waiting: 'sends an empty script' };

let client;
let subscriber;

/** Connects this process. */
export async function openMessages(url) {
  client = await connect(url);
  subscriber = await connect(url);
  await subscriber.subscribe('channel');
}

/** The operations of the two processes. */
export const ops = {
  async publish() {
    const at = now();
    await client.publish('channel', 'x');
    return at;
  },
  /** Returns the milliseconds of a call of an empty script. */
  async ping() {
    const at = now();
    await client.eval('return 1', 0);
    return now() - at;
  },
  listen: () => new Promise((resolve) => subscriber.once('message', () => resolve(now()))),
};

/** Returns the milliseconds of one message from process `a` to process `b`. */
export async function messageLatency(a, b, pause) {
  const received = b.call('listen');
  await pause();
  const sent = await a.call('publish');
  return (await received) - sent;
}
