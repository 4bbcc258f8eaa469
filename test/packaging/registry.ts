import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A registry that has the package, and sends npm to the registry of this machine for all others. */
export class Registry {
  private constructor(
    readonly url: string,
    private readonly server: Server,
  ) {}

  /** Starts it with a tarball of the package. */
  static async start(tarball: string): Promise<Registry> {
    const content = readFileSync(tarball);
    const others = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).trim();
    const manifest = JSON.parse(
      execFileSync('tar', ['-xzOf', tarball, 'package/package.json'], { encoding: 'utf8' }),
    ) as { name: string; version: string };
    const integrity = `sha512-${createHash('sha512').update(content).digest('base64')}`;
    const server = createServer(({ url = '' }, response) => {
      const path = `/${manifest.name}`;
      if (url === `${path}.tgz`) return void response.end(content);
      if (url !== path) return void response.writeHead(302, { location: new URL(url.slice(1), others).href }).end();
      const dist = { tarball: `http://${address}${path}.tgz`, integrity };
      const { name, version } = manifest;
      const versions = { [version]: { ...manifest, dist } };
      return void response.end(JSON.stringify({ name, 'dist-tags': { latest: version }, versions }));
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    return new Registry(`http://${address}`, server);
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await once(this.server.close(), 'close');
  }
}
