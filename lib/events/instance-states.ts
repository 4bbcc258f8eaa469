import { channel, type Channel } from 'node:diagnostics_channel';
import type { LockCall } from './call.js';

/** A server of a store, as its replies show it. */
export interface ServerState {
  /** Undefined stands for the whole store. */
  readonly server: string | undefined;
  readonly isUp: boolean;
}

/** The calls of one module instance. */
export interface LocalCalls {
  /** The calls that hold a lock. */
  readonly holds: readonly LockCall[];
  /** The calls that wait for a lock. */
  readonly waiting: readonly LockCall[];
}

/** The state of one module instance, for metrics. */
export interface InstanceState extends LocalCalls {
  /** The name of the module instance, `default` if it has none. */
  readonly instance: string;
  /** The whole store, and the servers that have fallen silent. */
  readonly servers: readonly ServerState[];
}

type Report = (state: InstanceState) => void;

// A channel, because the entry points of both module formats share it.
const states: Channel<unknown, unknown> = channel('nestjs-redis-lock:states');

/** Returns the states of all module instances of the process that have started and not ended. */
export function instanceStates(): readonly InstanceState[] {
  const found: InstanceState[] = [];
  const report: Report = (state) => void found.push(state);
  states.publish(report);
  return found;
}

/** Lets {@link instanceStates} find a module instance. Returns a function that stops this. */
export function offerState(read: () => InstanceState): () => void {
  const onAsked = (report: unknown): void => {
    if (typeof report === 'function') (report as Report)(read());
  };
  states.subscribe(onAsked);
  return () => void states.unsubscribe(onAsked);
}
