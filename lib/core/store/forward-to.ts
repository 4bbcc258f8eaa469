import type { StoreListener } from './lock-store.js';

/** Returns a listener that forwards every event to `listener`, except those that `overrides` handles. */
export function forwardTo(listener: StoreListener, overrides: Partial<StoreListener>): StoreListener {
  return {
    instanceId: listener.instanceId,
    onHandoff: (handoff) => listener.onHandoff(handoff),
    onReleased: (key) => listener.onReleased(key),
    onForceReleased: (key) => listener.onForceReleased?.(key),
    onSubscribed: (concerns) => listener.onSubscribed(concerns),
    onDegraded: (message) => listener.onDegraded(message),
    onRecovered: (message) => listener.onRecovered?.(message),
    onExtendFailed: (key, error) => listener.onExtendFailed?.(key, error),
    onDisconnected: (concerns) => listener.onDisconnected(concerns),
    onReconnected: (concerns) => listener.onReconnected(concerns),
    onUnreachable: (error, server) => listener.onUnreachable(error, server),
    onReachable: (server) => listener.onReachable(server),
    ...overrides,
  };
}
