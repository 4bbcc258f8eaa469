export { StaleFenceError } from '../common/errors.js';
export { type FenceClient, type FencedScript, RedisFence, type RedisFenceOptions } from './redis-fence.js';
export { SqlFence, type SqlDialect, type SqlFenceOptions, type SqlRun, type SqlStatements } from './sql-fence.js';
