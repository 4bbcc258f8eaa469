import { Redis } from 'ioredis';

export interface ServerInfo {
  readonly version: string;
  readonly pid: number;
}

/** Queries the server once on a new connection. Rejects if there is no reply within two seconds. */
export async function serverInfo(url: string): Promise<ServerInfo> {
  const client = new Redis(url, {
    lazyConnect: true,
    connectTimeout: 2_000,
    commandTimeout: 2_000,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  let reason: Error | undefined;
  client.on('error', (error: Error) => (reason = error));
  try {
    await client.connect();
    const info = await client.info('server');
    const field = (name: string) => new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1];
    return {
      version: field('valkey_version') ?? field('redis_version') ?? 'unknown',
      pid: Number(field('process_id')),
    };
  } catch (error) {
    throw reason ?? error;
  } finally {
    // On a connection that was never made, ioredis would leave its 2 s disconnect timer.
    if (client.status !== 'end') client.disconnect();
  }
}
