import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type RedisOptions, SentinelConnector } from 'ioredis';
import { sentinelConnector } from '../../../lib/redis/sentinel-connector.js';
import { encodeRequest, RespRequestReader } from '../../support/resp.js';
import { eventually } from '../../support/redis-locks.js';

/** A Sentinel that names one master, announces a failover on demand, and can hold its replies. */
class FakeSentinel {
  readonly server: Server;
  readonly subscribers = new Set<Socket>();
  readonly sockets = new Set<Socket>();
  held: (() => void)[] | undefined;

  constructor(private readonly master: () => AddressInfo) {
    this.server = createServer((socket) => this.serve(socket));
  }

  announceFailover(): void {
    for (const socket of this.subscribers) socket.write(encodeRequest(['message', '+switch-master', 'mymaster']));
  }

  release(): void {
    for (const reply of this.held?.splice(0) ?? []) reply();
    this.held = undefined;
  }

  private serve(socket: Socket): void {
    const reader = new RespRequestReader();
    this.sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => this.subscribers.delete(socket));
    socket.on('data', (chunk) => {
      for (const { words } of reader.push(chunk)) this.reply(socket, words);
    });
  }

  private reply(socket: Socket, [command, , ...rest]: readonly string[]): void {
    if (command.toLowerCase() === 'subscribe') {
      this.subscribers.add(socket);
      socket.write('*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n');
    } else if (command.toLowerCase() === 'sentinel' && rest[0] === 'mymaster') {
      const nameMaster = (): unknown => socket.write(encodeRequest(['127.0.0.1', String(this.master().port)]));
      if (this.held === undefined) nameMaster();
      else this.held.push(nameMaster);
    } else {
      socket.write('+OK\r\n');
    }
  }
}

const portOf = (server: Server): number => (server.address() as AddressInfo).port;

let master: Server;
let sentinel: FakeSentinel;
let accepted: Socket[];

beforeEach(async () => {
  accepted = [];
  master = createServer((socket) => accepted.push(socket.on('error', () => undefined)));
  sentinel = new FakeSentinel(() => master.address() as AddressInfo);
  for (const server of [master, sentinel.server]) await once(server.listen(0, '127.0.0.1'), 'listening');
});
afterEach(() => {
  for (const socket of [...accepted, ...sentinel.sockets]) socket.destroy();
  for (const server of [master, sentinel.server]) server.close();
});

/** Lets Sentinel announce a failover while a second connection looks for the master. Returns what becomes of it. */
async function failoverDuringConnect(Connector: NonNullable<RedisOptions['Connector']>): Promise<string> {
  const connector = new Connector({
    name: 'mymaster',
    sentinels: [{ host: '127.0.0.1', port: portOf(sentinel.server) }],
    failoverDetector: true,
    sentinelMaxConnections: 1,
    protocol: 2,
    connectTimeout: 60_000,
    disconnectTimeout: 50,
    sentinelReconnectStrategy: () => 10,
  });
  const first = await connector.connect(() => undefined);
  first.on('error', () => undefined);
  await eventually('Sentinel has a subscriber', () => sentinel.subscribers.size === 1);
  first.destroy();
  await once(first, 'close');
  sentinel.held = [];
  const second = connector
    .connect(() => undefined)
    .then(
      (stream) => {
        stream.destroy();
        return 'connected';
      },
      (error: Error) => error.message,
    );
  await eventually('it looks for the master', () => sentinel.held?.length === 1);
  sentinel.announceFailover();
  await eventually('the subscriber has read it, and leaves', () => sentinel.subscribers.size === 0);
  sentinel.release();
  const outcome = await second;
  connector.disconnect();
  return outcome;
}

describe('a failover that Sentinel announces while a client reconnects', () => {
  it('ends the attempt permanently in ioredis: delete our connector if this test fails', async () => {
    const Connector = SentinelConnector as NonNullable<RedisOptions['Connector']>;
    expect(await failoverDuringConnect(Connector)).toBe('Connection is closed.');
  });

  it('does not end the attempt with our connector', async () => {
    expect(await failoverDuringConnect(sentinelConnector(SentinelConnector)!)).toBe('connected');
  });
});
