import { UseFilters } from '@nestjs/common';
import {
  ConnectedSocket,
  MessageBody,
  SubscribeMessage,
  WebSocketGateway,
  WsException,
} from '@nestjs/websockets';
import { type Lock, LockExceptionFilter, LockService, resource } from 'nestjs-redis-lock';

interface Editor {
  readonly id: string;
  readonly connected: boolean;
  emit(event: string, data: number): void;
}

@WebSocketGateway()
@UseFilters(LockExceptionFilter)
export class DocumentGateway {
  readonly saved = new Map<number, string>();
  private readonly held = new Map<string, Lock>();

  constructor(private readonly locks: LockService) {}

  @SubscribeMessage('edit')
  async edit(@MessageBody() id: number, @ConnectedSocket() editor: Editor): Promise<object> {
    const lock = await this.locks.tryAcquire(resource`document:${id}`, {
      maxHoldMs: 3_600_000,
      warnHeldMs: false,
    });
    if (lock === null) return { event: 'taken', data: id };
    const before = this.held.get(editor.id);
    this.held.set(editor.id, lock);
    await before?.release(); // an editor has one document
    lock.signal.addEventListener('abort', () => editor.emit('lost', id));
    if (!editor.connected) await this.handleDisconnect(editor); // left while the lock was requested
    return { event: 'yours', data: id };
  }

  @SubscribeMessage('save')
  save(@MessageBody() [id, text]: [number, string], @ConnectedSocket() editor: Editor): object {
    const lock = this.held.get(editor.id);
    if (lock?.resource !== resource`document:${id}`)
      throw new WsException('Edit the document first.');
    lock.assertHeld(); // and `lock.fencingToken` for a fence
    this.saved.set(id, text);
    return { event: 'saved', data: id };
  }

  /** Nest calls this when a client leaves. */
  async handleDisconnect({ id }: Pick<Editor, 'id'>): Promise<void> {
    const lock = this.held.get(id);
    this.held.delete(id);
    await lock?.release();
  }
}
