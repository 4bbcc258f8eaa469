// Describes where and with what a run was measured.
import { execFileSync } from 'node:child_process';
import { cpus, release, totalmem, type } from 'node:os';
import { connect, DIST, versions } from './library.mjs';
import { startRedis } from './redis.mjs';

export async function describeMachine() {
  const redis = await startRedis();
  const client = await connect(redis.url);
  const info = await client.info('server');
  client.disconnect();
  redis.stop();
  const [{ model }] = cpus();
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`;
  return {
    processor: model.trim(),
    cores: cpus().length,
    memory,
    system: `${type()} ${release()}`,
    node: process.version,
    redis: /^redis_version:(\S+)/m.exec(info)[1],
    commit: commit(),
    libraries: versions(),
  };
}

function commit() {
  const git = (...args) =>
    execFileSync('git', args, { cwd: DIST, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  try {
    return (
      git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', '--', ':/lib') === '' ? '' : ' with changes')
    );
  } catch {
    return 'unknown';
  }
}
