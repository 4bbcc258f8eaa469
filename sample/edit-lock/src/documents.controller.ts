import { Body, ConflictException, Controller, Get, HttpCode, Param, Post } from '@nestjs/common';
import { LockService, resource } from 'nestjs-redis-lock';

/** Without a heartbeat for this long, others may take over. The page sends one every 20 s. */
export const SILENCE_MS = 60_000;

interface Document {
  text: string;
  /** The last fencing token that was seen. */
  token: number;
  editor: string;
}

@Controller('documents/:id')
export class DocumentsController {
  /** In one process. With several, keep them in a database, behind a fence. */
  private readonly documents = new Map<string, Document>();

  constructor(private readonly locks: LockService) {}

  /** Whether somebody edits, and who. A ticket is never shown. */
  @Get()
  async show(@Param('id') id: string) {
    const { text, editor } = this.documentOf(id);
    const lock = await this.locks.inspect(resource`document:${id}`);
    return { text, editor: lock === null ? null : editor };
  }

  @Post('edit')
  async edit(@Param('id') id: string, @Body('name') name: unknown) {
    const lock = await this.locks.acquire(resource`document:${id}`, { waitMs: 0 });
    this.documentOf(id).editor = String(name).slice(0, 40);
    return { ticket: await lock.detach({ ttlMs: SILENCE_MS }) };
  }

  @Post('heartbeat')
  @HttpCode(204)
  async heartbeat(@Param('id') id: string, @Body('ticket') ticket: string): Promise<void> {
    await this.locks.extend(resource`document:${id}`, ticket);
  }

  /** Ends the ticket, and returns one for the next request. */
  @Post('save')
  async save(@Param('id') id: string, @Body('ticket') ticket: string, @Body('text') text: unknown) {
    const lock = await this.locks.resume(resource`document:${id}`, ticket);
    try {
      this.write(id, { text: String(text), token: lock.fencingToken });
    } catch (error) {
      await lock.release();
      throw error;
    }
    return { ticket: await lock.detach({ ttlMs: SILENCE_MS }) };
  }

  @Post('close')
  async close(@Param('id') id: string, @Body('ticket') ticket: string) {
    return { wasHeld: await this.locks.release(resource`document:${id}`, ticket) };
  }

  /** Refuses a holder that others have overtaken. */
  private write(id: string, { text, token }: Pick<Document, 'text' | 'token'>): void {
    const document = this.documentOf(id);
    if (token < document.token) throw new ConflictException('There is a newer edit.');
    Object.assign(document, { text, token });
  }

  private documentOf(id: string): Document {
    let document = this.documents.get(id);
    if (document === undefined) this.documents.set(id, (document = { text: '', token: 0, editor: '' }));
    return document;
  }
}
