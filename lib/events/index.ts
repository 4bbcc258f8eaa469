export type { LockCall } from './call.js';
export {
  type EndedEvent,
  type GrantedEvent,
  type LockEvent,
  lockChannels,
  type LostEvent,
  type RefusedEvent,
  type ReleasedEvent,
  storeChannel,
  type StoreEvent,
} from './diagnostics.js';
export { type LockCallContext, type LockOutcome, lockTracing, workChannel, type WorkMessage } from './tracing.js';
