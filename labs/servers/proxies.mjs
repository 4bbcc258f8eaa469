// Starts a server, or one with a proxy before it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const START_TIMEOUT_MS = 20_000;

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}

const PROXIES = {
  envoy: {
    config: (port, behind) => `
static_resources:
  listeners:
  - address: { socket_address: { address: 127.0.0.1, port_value: ${port} } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.redis_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy
          stat_prefix: locks
          settings: { op_timeout: 5s, enable_hashtagging: true }
          prefix_routes: { catch_all_route: { cluster: redis } }
  clusters:
  - name: redis
    type: STATIC
    lb_policy: RING_HASH
    load_assignment:
      cluster_name: redis
      endpoints:
      - lb_endpoints:
        - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: ${behind} } } }
`,
    args: (file) => ['-c', file, '--concurrency', '1', '--disable-hot-restart', '-l', 'error'],
  },
  twemproxy: {
    config: (port, behind) => `
locks:
  listen: 127.0.0.1:${port}
  redis: true
  hash: fnv1a_64
  hash_tag: "{}"
  distribution: modula
  servers:
   - 127.0.0.1:${behind}:1
`,
    args: (file, folder, stats) => ['-c', file, '-o', join(folder, 'log'), '-a', '127.0.0.1', '-s', String(stats)],
  },
};

async function started(name, binary, args, port) {
  // A process group of its own, because the binary is a script that becomes the server.
  const child = spawn(binary, args, { stdio: 'ignore' });
  const giveUpAt = performance.now() + START_TIMEOUT_MS;
  while (child.exitCode === null && performance.now() < giveUpAt) {
    const socket = connect(port, '127.0.0.1');
    const isThere = await Promise.race([
      once(socket, 'connect').then(
        () => true,
        () => false,
      ),
      sleep(1_000, false),
    ]);
    socket.destroy();
    if (isThere) return child;
    await sleep(50);
  }
  child.kill();
  throw new Error(`${name} does not listen on port ${port}`);
}

async function ended(child) {
  child.kill();
  if (child.exitCode === null) await once(child, 'exit');
}

/** Starts a server alone. */
export async function startServer(binary) {
  const port = await freePort();
  const quiet = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
  const child = await started('the server', binary, quiet, port);
  const url = `redis://127.0.0.1:${port}`;
  return { url, behind: url, stop: () => ended(child) };
}

/** Starts both. Returns their URLs, and how to end them. */
export async function startProxy(proxy, binary, serverBinary) {
  const server = await startServer(serverBinary);
  const folder = mkdtempSync(join(tmpdir(), 'servers-'));
  const stop = async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const [port, stats] = [await freePort(), await freePort()];
    const file = join(folder, 'proxy.yaml');
    const { config, args } = PROXIES[proxy];
    writeFileSync(file, config(port, new URL(server.url).port));
    const child = await started(proxy, binary, args(file, folder, stats), port);
    return { url: `redis://127.0.0.1:${port}`, behind: server.url, stop: () => ended(child).then(stop) };
  } catch (error) {
    await stop();
    throw error;
  }
}
