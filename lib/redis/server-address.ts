/** What a client knows of its server. */
export interface AddressedClient {
  readonly options?: {
    readonly host?: string;
    readonly port?: number;
    readonly path?: string | null;
    readonly sentinels?: readonly unknown[] | null;
    /** The name of the master at its Sentinels. */
    readonly name?: string | null;
  };
  readonly stream?: { readonly remoteAddress?: string; readonly remotePort?: number };
}

/** Returns the address of a client's server, which Sentinel or a proxy may have chosen. */
export function addressOf({ stream, options = {} }: AddressedClient): string {
  if (options.path) return options.path;
  const { remoteAddress: host = options.host, remotePort: port = options.port } = stream ?? {};
  return formatAddress(host, port);
}

/**
 * Returns a name of a client's server, which stays the same while it is down: the address in the options. Behind
 * Sentinel, the address of the master, or its name while there is no connection.
 */
export function serverNameOf(client: AddressedClient): string {
  const { options = {}, stream } = client;
  if (!options.sentinels) return options.path ?? formatAddress(options.host, options.port);
  return stream?.remoteAddress === undefined ? (options.name ?? 'mymaster') : addressOf(client);
}

function formatAddress(host = 'localhost', port = 6379): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
