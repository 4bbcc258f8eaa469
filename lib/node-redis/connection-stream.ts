/**
 * Stands for one connection of a client, so that a listing notices that its cursor is void. node-redis writes the
 * commands of a tick in one packet by itself, so nothing is kept back.
 */
export class ConnectionStream {
  cork(): void {
    // Nothing to do.
  }

  uncork(): void {
    // Nothing to do.
  }
}
