import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Redis, type RedisOptions } from 'ioredis';
import { IoredisServer } from '../../../lib/redis/ioredis/ioredis-server.js';
import { eventually } from '../../support/async.js';
import { RespRequestReader } from '../../support/resp.js';

/** A server that records the commands of its clients. It replies to some of them. */
class FakeServer {
  /** Each with its words. */
  readonly received: string[] = [];
  readonly server: Server;
  private readonly sockets = new Set<Socket>();

  constructor() {
    this.server = createServer((socket) => this.serve(socket));
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  count(command: string): number {
    return this.received.filter((words) => words === command || words.startsWith(`${command} `)).length;
  }

  close(): void {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
  }

  private serve(socket: Socket): void {
    const reader = new RespRequestReader();
    // Replies come in the order of the commands.
    let isSilent = false;
    this.sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      for (const { words } of reader.push(chunk)) {
        this.received.push(words.join(' ').toLowerCase());
        const reply = replyTo(words);
        isSilent ||= reply === undefined;
        if (!isSilent) socket.write(`${reply}\r\n`);
      }
    });
  }
}

/** Returns the reply to a command. Undefined for a command that gets none. */
function replyTo([command, first]: readonly string[]): string | undefined {
  if (first === 'unanswered') return undefined;
  if (first === 'unknown') return '-NOSCRIPT No matching script. Please use EVAL.';
  if (first === 'fails') return '-ERR it failed';
  if (command.toLowerCase() === 'time') return '*2\r\n$2\r\n17\r\n$1\r\n5';
  return /^eval/i.test(command) ? ':7' : '+OK';
}

let server: FakeServer;
const clients: Redis[] = [];

beforeEach(async () => {
  server = new FakeServer();
  server.server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
});
afterEach(() => {
  for (const client of clients.splice(0)) client.disconnect();
  server.close();
});

/** Returns a client that collects its commands. */
function collecting(options: RedisOptions = {}): Redis {
  const client = new Redis(server.url, { enableReadyCheck: false, enableAutoPipelining: true, ...options });
  clients.push(client.on('error', () => undefined));
  return client;
}

async function connected(options: RedisOptions = {}): Promise<Redis> {
  const client = collecting(options);
  await once(client, 'ready');
  return client;
}

describe('a client that does not collect its commands', () => {
  it('sends them by its own methods', async () => {
    const client = await connected({ enableAutoPipelining: false });
    const own = jest.spyOn(client, 'evalsha');
    expect(await new IoredisServer(client).run('evalsha', 'known', ['key'], ['arg'])).toBe(7);
    expect(own).toHaveBeenCalledTimes(1);
  });

  it('takes part of the prefix from others, as a node of a cluster does', async () => {
    const node = new IoredisServer(await connected({ enableAutoPipelining: false }), 'app:');
    expect(node.keyPrefix).toBe('app:');
    await node.run('evalsha', 'known', ['one', 'two'], ['arg']);
    await node.send('get', ['key']);
    expect(server.received.slice(-2)).toEqual(['evalsha known 2 app:one app:two arg', 'get app:key']);
  });
});

describe('a client that collects its commands', () => {
  it('sends a script at once while an automatic pipeline waits for its replies', async () => {
    const client = await connected();
    client.get('unanswered').catch(() => undefined);
    await eventually('the pipeline is sent', () => server.count('get') === 1);
    const [atOnce, collected] = [new IoredisServer(client), client.evalsha('collected', 0)];
    collected.catch(() => undefined);
    for (const reply of [
      atOnce.run('evalsha', 'known', ['key'], ['arg']),
      atOnce.run('eval', 'return 7', ['key'], ['arg']),
    ])
      reply.catch(() => undefined);
    await eventually('both are sent', () => server.count('eval') === 1);
    expect(server.received.slice(-2)).toEqual(['evalsha known 1 key arg', 'eval return 7 1 key arg']);
    expect(server.received.join()).not.toContain('collected');
  });

  it('returns replies and the errors of the server', async () => {
    const atOnce = new IoredisServer(await connected());
    expect(await atOnce.run('evalsha', 'known', ['key'], [])).toBe(7);
    expect(await atOnce.run('eval', 'return 7', ['key'], [])).toBe(7);
    expect(await atOnce.send('time')).toEqual(['17', '5']);
    await expect(atOnce.run('evalsha', 'unknown', ['key'], [])).rejects.toThrow(/^NOSCRIPT/);
    await expect(atOnce.run('eval', 'fails', ['key'], [])).rejects.toThrow('ERR it failed');
  });

  it('keeps the options of the client: keyPrefix, commandTimeout and enableOfflineQueue', async () => {
    const prefixed = new IoredisServer(await connected({ keyPrefix: 'app:', stringNumbers: true }));
    expect(await prefixed.run('evalsha', 'known', ['one', 'two'], ['arg'])).toBe('7');
    expect(server.received.at(-1)).toBe('evalsha known 2 app:one app:two arg');
    expect(prefixed.keyPrefix).toBe('app:');
    // Connecting takes any time.
    const client = await connected();
    client.options.commandTimeout = 30;
    const hasty = new IoredisServer(client);
    await expect(hasty.run('evalsha', 'unanswered', ['key'], [])).rejects.toThrow('Command timed out');
    const offline = new IoredisServer(collecting({ enableOfflineQueue: false, lazyConnect: true }));
    await expect(offline.run('evalsha', 'known', ['key'], [])).rejects.toThrow('enableOfflineQueue');
  });
});
