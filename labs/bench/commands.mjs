// Counts the commands that this process sends, including those of pipelines and automatic pipelines.
import { connect, Redis } from './library.mjs';

let sent = 0;
const { sendCommand } = Redis.prototype;

Redis.prototype.sendCommand = function countingSendCommand(command, stream) {
  // A command that is sent before the connection is ready passes here a second time.
  if (this.status === 'ready') sent += 1;
  return sendCommand.call(this, command, stream);
};

export const commandsSent = () => sent;

/** Counts a command of a client that is not ioredis. */
export const countCommand = () => (sent += 1);

/** Verifies the count for the three ways in which a command can be sent. */
export async function checkCounting(url) {
  const client = await connect(url, { enableAutoPipelining: true });
  const ten = Array.from({ length: 10 });
  const before = sent;
  for (let i = 0; i < 10; i++) await client.ping();
  await Promise.all(ten.map(() => client.ping()));
  const pipeline = client.pipeline();
  for (let i = 0; i < 10; i++) pipeline.ping();
  await pipeline.exec();
  const counted = sent - before;
  client.disconnect();
  if (counted !== 30) throw new Error(`30 commands were sent, ${counted} counted.`);
}
