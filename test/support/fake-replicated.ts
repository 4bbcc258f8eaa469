import type { ClientListener } from '../../lib/redis/client-port.js';

/** A connection to a server with one replica. The test decides when it connects, and whether the replica replies. */
export class FakeReplicated {
  status = 'wait';
  acknowledges = true;
  /** The error with which the server refuses each lease. */
  refusal: string | undefined;
  /** The keys whose leases were written, in order. */
  readonly written: string[] = [];
  /** How often it was cut, to connect again. */
  cuts = 0;
  private listener: ClientListener = {};

  watch(listener: ClientListener): () => void {
    this.listener = listener;
    return () => undefined;
  }

  connect(): void {
    this.status = 'connecting';
  }

  disconnect(reconnect = false): void {
    if (reconnect) this.cuts += 1;
  }

  async run(_command: string, _script: string, [key]: readonly string[]): Promise<number> {
    this.written.push(key);
    if (this.refusal !== undefined) throw new Error(this.refusal);
    return 1;
  }

  async send(command: string): Promise<unknown> {
    return command === 'wait' ? Number(this.acknowledges) : 'connected_slaves:1\r\n';
  }

  /** The server accepts the connection, and sends nothing. */
  accept(): void {
    this.status = 'connect';
    this.listener.connect?.();
  }

  becomeReady(): void {
    this.accept();
    this.status = 'ready';
    this.listener.ready?.();
  }

  lose(): void {
    this.status = 'reconnecting';
    this.listener.close?.();
  }
}
