import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { encodeRequest } from './resp.js';

/** One command that a server has run. */
export interface MonitoredCommand {
  /** The server's time in seconds. */
  readonly at: number;
  readonly words: readonly string[];
  /** The address of the client. `lua` for a command of a script. */
  readonly source: string;
}

interface MonitoredServer {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly password?: string | null | undefined;
}

/** `1795430636.910371 [0 127.0.0.1:40888] "get" "goods"` */
const LINE = /^\+([\d.]+) \[\d+ (\S*)\] (.*)$/;
const WORD = /"((?:[^"\\]|\\.)*)"/g;

/**
 * Calls back with each command that a server runs. MONITOR of ioredis fails if a command arrives in one packet with the
 * reply to MONITOR.
 */
export async function monitor(
  { host, port = 6379, password }: MonitoredServer,
  onCommand: (command: MonitoredCommand) => void,
): Promise<{ disconnect(): void }> {
  const socket = connect(port, host);
  const requests = password ? [['AUTH', password], ['MONITOR']] : [['MONITOR']];
  for (const request of requests) socket.write(encodeRequest(request));
  let replies = 0;
  await new Promise<void>((resolve, reject) => {
    socket.on('error', reject);
    createInterface({ input: socket }).on('line', (line) => {
      if (line.startsWith('-')) reject(new Error(line));
      if (line === '+OK' && (replies += 1) === requests.length) resolve();
      const [, at, source, words] = LINE.exec(line) ?? [];
      if (at === undefined) return;
      const read = Array.from(words.matchAll(WORD), ([, word]) => word.replaceAll(/\\(["\\])/g, '$1'));
      onCommand({ at: Number(at), words: read, source });
    });
  });
  return { disconnect: () => socket.destroy() };
}
