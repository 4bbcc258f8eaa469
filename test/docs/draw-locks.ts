import { lockOrder } from 'nestjs-redis-lock';

export function drawLocks(): string {
  return lockOrder().toMermaid();
}
