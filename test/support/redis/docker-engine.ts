import { request, type IncomingMessage, type RequestOptions } from 'node:http';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const PING_TIMEOUT_MS = 2_000;
const PULL_TIMEOUT_MS = 120_000;

type Address = Pick<RequestOptions, 'socketPath' | 'host' | 'port'>;

function addresses(env: NodeJS.ProcessEnv): Address[] {
  const host = env.DOCKER_HOST;
  if (host?.startsWith('unix://')) return [{ socketPath: host.slice('unix://'.length) }];
  if (host) {
    const url = new URL(host);
    return [{ host: url.hostname, port: url.port || '2375' }];
  }
  const runtime = env.XDG_RUNTIME_DIR;
  const sockets = ['/var/run/docker.sock', join(homedir(), '.docker/run/docker.sock')];
  if (runtime) sockets.push(join(runtime, 'docker.sock'));
  return sockets.filter((path) => existsSync(path)).map((socketPath) => ({ socketPath }));
}

/** The queries that decide whether Testcontainers is worth loading. */
export class DockerEngine {
  private constructor(private readonly address: Address) {}

  /** Returns the first engine that replies. A client without an engine or a dead socket is common. */
  static async find(env: NodeJS.ProcessEnv): Promise<DockerEngine> {
    const reasons: string[] = [];
    for (const address of addresses(env)) {
      const engine = new DockerEngine(address);
      const where = address.socketPath ?? `${address.host}:${address.port}`;
      try {
        const { status } = await engine.ask('GET', '/_ping', PING_TIMEOUT_MS);
        if (status === 200) return engine;
        reasons.push(`${where} answered ${status}`);
      } catch (error) {
        reasons.push(`${where}: ${(error as Error).message}`);
      }
    }
    throw new Error(reasons.length === 0 ? 'no Docker engine' : `no Docker engine replies (${reasons.join(', ')})`);
  }

  /** Returns the Redis version of the image. Pulls the image if it is absent. */
  async imageVersion(image: string): Promise<string> {
    const path = `/images/${image}/json`;
    let found = await this.ask('GET', path, PING_TIMEOUT_MS);
    if (found.status !== 200) {
      await this.pull(image);
      found = await this.ask('GET', path, PING_TIMEOUT_MS);
    }
    if (found.status !== 200) throw new Error(`image ${image}: the engine replied ${found.status}`);
    return /"REDIS_VERSION=([^"]+)"/.exec(found.body)?.[1] ?? 'unknown';
  }

  private async pull(image: string): Promise<void> {
    const query = `fromImage=${encodeURIComponent(image)}`;
    const { status, body } = await this.ask('POST', `/images/create?${query}`, PULL_TIMEOUT_MS);
    // The engine replies 200 before it pulls. Later failures are in the stream.
    const failure = /"error":"([^"]*)"/.exec(body)?.[1] ?? (status === 200 ? undefined : body.trim());
    if (failure !== undefined) throw new Error(`image ${image} is not here and cannot be pulled: ${failure}`);
  }

  private ask(method: string, path: string, timeoutMs: number): Promise<{ status: number; body: string }> {
    return new Promise((resolve, reject) => {
      const signal = AbortSignal.timeout(timeoutMs);
      const answer = (response: IncomingMessage) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject);
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString('utf8') }),
        );
      };
      request({ ...this.address, method, path, signal, agent: false }, answer)
        .on('error', reject)
        .end();
    });
  }
}
