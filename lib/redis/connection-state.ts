/**
 * How often a client without a connection is reported, in milliseconds. The engine takes an outage for over if it was
 * not seen for a second.
 */
export const REPORT_EVERY_MS = 250;

const RECONNECTING = 'the connection was closed, and the client reconnects';

/** What `connecting` means for a connection with TLS that the server has accepted. */
export const NO_HANDSHAKE = 'the server does not reply to the TLS handshake';

/** What each state of an ioredis client means. */
const STATES: Readonly<Record<string, string>> = {
  wait: 'not connected yet',
  connecting: 'not connected yet, the client is connecting',
  connect: 'connected, but Redis is not ready: it may be loading its data',
  ready: 'connected, but Redis does not reply',
  close: RECONNECTING,
  reconnecting: RECONNECTING,
  disconnecting: 'the client is closing its connection',
  end: 'the connection was closed, and the client does not reconnect',
};

/**
 * Returns what the state of a client means for its requests.
 *
 * @param wasReady whether it has had a connection before.
 */
export function describeState(status: string, wasReady: boolean): string {
  if (status === 'connecting' && wasReady) return RECONNECTING;
  return STATES[status] ?? `no connection (${status})`;
}

/** Returns what the state of a Cluster means for its requests. Its state `connect` has another meaning. */
export function describeClusterState(status: string): string {
  return status === 'connect'
    ? 'connected, but no node has sent the slots of the cluster yet'
    : describeState(status, false);
}
