import 'reflect-metadata';

export { RedisLockBoardModule } from './board.module.js';
export type {
  LockBoardRequest,
  RedisLockBoardAsyncOptions,
  RedisLockBoardModuleExtras,
  RedisLockBoardOptions,
} from './board-options.js';
