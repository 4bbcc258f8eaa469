import { once } from 'node:events';
import { createServer } from 'node:net';

/** A browser finds a program at localhost on any of them. Some systems give one port to two programs, one on each. */
const HOSTS = ['127.0.0.1', '::1', '0.0.0.0', '::'];

async function isFree(port: number): Promise<boolean> {
  for (const host of HOSTS) {
    if (!(await canListen(port, host))) return false;
  }
  return true;
}

async function canListen(port: number, host: string): Promise<boolean> {
  const probe = createServer();
  try {
    await once(probe.listen({ port, host, ipv6Only: host === '::' }), 'listening');
    return true;
  } catch (error) {
    // A machine may have no IPv6.
    return !['EADDRINUSE', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '');
  } finally {
    await new Promise((resolve) => probe.close(resolve));
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
