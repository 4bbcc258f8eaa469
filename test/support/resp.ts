/** One request of a client: its arguments and its bytes. */
export interface RespRequest {
  readonly words: readonly string[];
  readonly bytes: Buffer;
}

const CRLF = Buffer.from('\r\n');
const ASTERISK = 0x2a;

/** Splits a client's byte stream into requests. Incomplete requests are kept until the rest arrives. */
export class RespRequestReader {
  private buffer = Buffer.alloc(0);

  push(chunk: Buffer): RespRequest[] {
    this.buffer = Buffer.concat([this.buffer, chunk]);
    const requests: RespRequest[] = [];
    for (let request = this.next(); request; request = this.next()) requests.push(request);
    return requests;
  }

  private next(): RespRequest | undefined {
    const first = this.line(0);
    if (!first) return undefined;
    if (this.buffer[0] !== ASTERISK) return this.take(first.end, first.text.trim().split(/\s+/)); // an inline command
    const words: string[] = [];
    let at = first.end;
    for (let left = Number(first.text.slice(1)); left > 0; left--) {
      const head = this.line(at);
      if (!head) return undefined;
      const end = head.end + Number(head.text.slice(1));
      if (this.buffer.length < end + CRLF.length) return undefined;
      words.push(this.buffer.toString('utf8', head.end, end));
      at = end + CRLF.length;
    }
    return this.take(at, words);
  }

  private line(from: number): { text: string; end: number } | undefined {
    const at = this.buffer.indexOf(CRLF, from);
    return at < 0 ? undefined : { text: this.buffer.toString('latin1', from, at), end: at + CRLF.length };
  }

  private take(end: number, words: string[]): RespRequest {
    const bytes = this.buffer.subarray(0, end);
    this.buffer = this.buffer.subarray(end);
    return { words, bytes };
  }
}

export function encodeRequest(words: readonly string[]): Buffer {
  const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
  return Buffer.from(`*${words.length}\r\n${parts.join('')}`);
}
