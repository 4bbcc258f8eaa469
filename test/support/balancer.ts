import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** How often the balancer checks the readiness of each server. */
const CHECK_MS = 100;

/** Passes requests to the servers that are ready, in turns. It never repeats a request. */
export class Balancer {
  private readonly server: Server;
  /** By port: whether it is ready. */
  private readonly servers = new Map<number, boolean>();
  private readonly timer: NodeJS.Timeout;
  private turn = 0;

  private constructor() {
    this.server = createServer((incoming, outgoing) => this.pass(incoming, outgoing));
    this.timer = setInterval(() => {
      for (const port of this.servers.keys()) this.check(port);
    }, CHECK_MS);
  }

  static async start(): Promise<Balancer> {
    const balancer = new Balancer();
    await new Promise<void>((resolve) => balancer.server.listen(0, '127.0.0.1', resolve));
    return balancer;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  add(port: number): void {
    this.servers.set(port, false);
  }

  remove(port: number): void {
    this.servers.delete(port);
  }

  isReady(port: number): boolean {
    return this.servers.get(port) === true;
  }

  async close(): Promise<void> {
    clearInterval(this.timer);
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private check(port: number): void {
    const settle = (isReady: boolean): void => void (this.servers.has(port) && this.servers.set(port, isReady));
    request({ port, host: '127.0.0.1', path: '/ready', agent: false }, (response) => {
      response.resume();
      settle(response.statusCode === 200);
    })
      .on('error', () => settle(false))
      .end();
  }

  private pass({ url, method }: IncomingMessage, outgoing: ServerResponse): void {
    const ready = [...this.servers].filter(([, isReady]) => isReady);
    const refuse = (why: string): void => void outgoing.writeHead(502).end(why);
    if (ready.length === 0) return refuse('no server is ready');
    this.turn += 1;
    const [port] = ready[this.turn % ready.length];
    request({ port, host: '127.0.0.1', path: url, method, agent: false }, (response) => {
      outgoing.writeHead(response.statusCode ?? 502);
      response.pipe(outgoing);
    })
      .on('error', (error) => refuse(`port ${port}: ${error.message}`))
      .end();
  }
}
