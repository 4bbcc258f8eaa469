import { EventEmitter } from 'node:events';

/** The events of a client of ioredis that stores listen to. */
export type AdapterEvent =
  'connecting' | 'connect' | 'ready' | 'close' | 'end' | 'error' | 'message' | 'smessage' | 'moved' | 'refresh';

type Listener = (...args: never[]) => void;

/** Emits the events that stores listen to. An error without a listener is no exception. */
export abstract class ClientEvents {
  private readonly emitter = new EventEmitter().setMaxListeners(0);

  on(event: AdapterEvent, listener: Listener): this {
    this.emitter.on(event, listener as (...args: unknown[]) => void);
    return this;
  }

  off(event: AdapterEvent, listener: Listener): this {
    this.emitter.off(event, listener as (...args: unknown[]) => void);
    return this;
  }

  // node-redis prints no errors, so a further listener silences nothing.
  listenerCount(event: string): number {
    return event === 'error' ? 1 : this.emitter.listenerCount(event);
  }

  protected emit(event: AdapterEvent, ...args: unknown[]): void {
    if (this.emitter.listenerCount(event) > 0) this.emitter.emit(event, ...args);
  }
}
