export { StaleFenceError } from '../core/errors.js';
export { RedisFence, type FenceClient, type RedisFenceOptions } from './redis-fence.js';
export type { FencedCommand, FencedCommandName, FencedScript } from './fenced-commands.js';
export { SqlFence, type SqlDialect, type SqlFenceOptions, type SqlRun, type SqlStatements } from './sql-fence.js';
