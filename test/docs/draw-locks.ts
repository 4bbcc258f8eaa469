import { lockOrder } from 'nestjs-redis-lock';

export function drawLocks(): { mermaid: string; dot: string } {
  const order = lockOrder();
  return { mermaid: order.toMermaid(), dot: order.toDot() };
}
