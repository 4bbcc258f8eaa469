import { EventEmitter } from 'node:events';

/** The events of a client of ioredis that stores listen to. */
export type AdapterEvent =
  | 'connect'
  | 'ready'
  | 'close'
  | 'end'
  | 'error'
  | 'message'
  | 'smessage'
  | 'moved'
  | 'refresh';

type Listener = (...args: never[]) => void;

/** Emits the events that stores listen to. An error without a listener is no exception. */
export class ClientEvents {
  private readonly emitter = new EventEmitter().setMaxListeners(0);

  add(event: AdapterEvent, listener: Listener): void {
    this.emitter.on(event, listener as (...args: unknown[]) => void);
  }

  remove(event: AdapterEvent, listener: Listener): void {
    this.emitter.off(event, listener as (...args: unknown[]) => void);
  }

  count(event: string): number {
    return this.emitter.listenerCount(event);
  }

  emit(event: AdapterEvent, ...args: unknown[]): void {
    if (this.emitter.listenerCount(event) > 0) this.emitter.emit(event, ...args);
  }
}
