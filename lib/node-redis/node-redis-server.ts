import type { ClientListener, ServerTarget } from '../redis/client-port.js';

type Event = keyof ClientListener;
type Arguments<E extends Event> = Parameters<NonNullable<ClientListener[E]>>;

/** What the caller's client and a further connection have in common. */
export abstract class NodeRedisServer {
  abstract readonly keyPrefix: string;
  abstract readonly target: ServerTarget;
  private readonly listeners = new Set<ClientListener>();

  run(command: 'eval' | 'evalsha', script: string, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    return this.request([command, script, String(keys.length), ...this.named(keys), ...args]);
  }

  send(command: string, keys: readonly string[] = [], args: readonly string[] = []): Promise<unknown> {
    return this.request([command, ...this.named(keys), ...args]);
  }

  watch(listener: ClientListener): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  protected abstract request(words: readonly string[]): Promise<unknown>;

  protected report<E extends Event>(event: E, ...args: Arguments<E>): void {
    for (const listener of this.listeners)
      (listener[event] as ((...each: Arguments<E>) => void) | undefined)?.(...args);
  }

  private named(keys: readonly string[]): readonly string[] {
    return this.keyPrefix === '' ? keys : keys.map((key) => this.keyPrefix + key);
  }
}
