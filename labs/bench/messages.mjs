// The time from a PUBLISH to the message in another process: the least that a handoff can take.
import { now } from './clock.mjs';
import { connect } from './library.mjs';

export const message = { name: 'raw PUBLISH → message', kind: 'floor', waiting: 'subscribed' };

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
  listen: () => new Promise((resolve) => subscriber.once('message', () => resolve(now()))),
};

/** Returns the milliseconds of one message from process `a` to process `b`. */
export async function messageLatency(a, b, pause) {
  const received = b.call('listen');
  await pause();
  const sent = await a.call('publish');
  return (await received) - sent;
}
