export type { LockCall } from '../core/events/call.js';
export {
  type EndedEvent,
  type GrantedEvent,
  type LockEvent,
  lockChannels,
  type LostEvent,
  type RefusedEvent,
  storeChannel,
  type StoreEvent,
} from '../core/events/diagnostics.js';
export {
  type LockCallContext,
  type LockOutcome,
  lockTracing,
  workChannel,
  type WorkMessage,
} from '../core/events/tracing.js';
