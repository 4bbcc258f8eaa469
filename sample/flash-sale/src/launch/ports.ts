import { once } from 'node:events';
import { createServer } from 'node:net';

async function isFree(port: number): Promise<boolean> {
  const probe = createServer();
  try {
    await once(probe.listen(port), 'listening');
    return true;
  } catch {
    return false;
  } finally {
    probe.close();
  }
}

/** Returns the first free ports from `from` up. */
export async function freePorts(count: number, from: number): Promise<number[]> {
  const ports: number[] = [];
  for (let port = from; ports.length < count; port++) {
    if (port > 65_535) throw new Error(`There are no ${count} free ports from ${from} up.`);
    if (await isFree(port)) ports.push(port);
  }
  return ports;
}
