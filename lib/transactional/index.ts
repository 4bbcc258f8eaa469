export { type LockScopeAdapterOptions, withLockScope } from './with-lock-scope.js';
