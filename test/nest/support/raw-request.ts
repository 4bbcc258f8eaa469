import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';

/** A request on its own connection, which the test can cut. `fetch` would reconnect after a cut. */
export class RawRequest {
  private readonly request;
  private readonly response: Promise<IncomingMessage>;

  constructor(url: string, method = 'GET') {
    this.request = request(url, { method, agent: false });
    this.response = once(this.request, 'response').then(([response]) => response as IncomingMessage);
    this.response.catch(() => undefined);
    this.request.on('error', () => undefined).end();
  }

  /** Reads the response up to that text. */
  async readUntil(text: string): Promise<void> {
    const response = await this.response;
    let seen = '';
    await new Promise<void>((resolve, reject) => {
      response.on('data', (chunk: Buffer) => {
        seen += chunk.toString();
        if (seen.includes(text)) resolve();
      });
      response.once('close', () => reject(new Error(`the response ended without ${text}: ${seen}`)));
    });
  }

  hangUp(): void {
    this.request.destroy();
  }
}
