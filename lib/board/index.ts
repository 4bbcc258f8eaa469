import 'reflect-metadata';

export { RedisLockBoardModule } from './board.module.js';
export type { RedisLockBoardOptions } from './board-options.js';
