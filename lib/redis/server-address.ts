import { type ClusterClient, isCluster, type ServerClient } from './client-port.js';

/** Returns the address of a client's server, which Sentinel or a proxy may have chosen. */
export function addressOf({ socket, target }: ServerClient): string {
  if (target.path) return target.path;
  const { remoteAddress: host = target.host, remotePort: port = target.port } = socket ?? {};
  return formatAddress(host, port);
}

/**
 * Returns a name of a client's server, which stays the same while it is down: the address in the options. Behind
 * Sentinel, the address of the master, or its name while there is no connection.
 */
export function serverNameOf(client: ServerClient): string {
  const { target, socket } = client;
  if (!target.sentinels) return target.path ?? formatAddress(target.host, target.port);
  return socket?.remoteAddress === undefined ? (target.name ?? 'mymaster') : addressOf(client);
}

/** Returns where the locks of a client are, as its options say, without a password. */
export function placeOf(client: ServerClient | ClusterClient): string {
  if (isCluster(client)) return `the cluster of ${client.givenNodes.join(', ')}`;
  const { path, host, port, sentinels, name, db, tls } = client.target;
  if (!path && !sentinels) {
    const server = `${tls ? 'rediss' : 'redis'}://${formatAddress(host, port)}`;
    return db ? `${server}/${db}` : server;
  }
  const addresses = sentinels?.map((sentinel) => formatAddress(sentinel.host, sentinel.port));
  const server = addresses ? `${name ?? 'mymaster'} of the Sentinels ${addresses.join(', ')}` : String(path);
  return db ? `${server}, database ${db}` : server;
}

/** Returns the address of a host and a port. */
export function formatAddress(host = 'localhost', port = 6379): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
