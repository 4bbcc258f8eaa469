// The first scenarios on several versions of Node and of the server, with few entries and rounds.
import { execFileSync } from 'node:child_process';
import { binaryOf, SERVERS as KNOWN } from '../servers/binaries.mjs';
import { nodeOf } from './nodes.mjs';
import { NODES, SERVERS } from './plan.mjs';
import { BINARY } from './redis.mjs';

/**
 * Returns each pair of versions. A pair with a reason cannot run here.
 *
 * @returns {{ node: string, server: string, execPath?: string, binary?: string, reason?: string }[]}
 */
export function pairs() {
  const nodes = NODES.map((major) => attempt({ node: `Node ${major}` }, () => describedNode(nodeOf(major))));
  const servers = SERVERS.map((name) => attempt({ server: name }, () => describedServer(name)));
  return servers.flatMap((server) =>
    nodes.map((node) => ({ ...node, ...server, reason: node.reason ?? server.reason })),
  );
}

function attempt(named, describe) {
  try {
    return { ...named, ...describe() };
  } catch (error) {
    return { ...named, reason: error.message.split('\n')[0].slice(0, 200) };
  }
}

function describedNode(execPath) {
  return { node: `Node ${execFileSync(execPath, ['--version'], { encoding: 'utf8' }).trim()}`, execPath };
}

function describedServer(name) {
  const [product, version] = name.split(' ');
  const isHere = versionOf(BINARY).startsWith(version) && !/valkey/i.test(name);
  const binary = isHere ? BINARY : binaryOf(KNOWN.find((server) => server.name === name));
  return { server: `${product} ${versionOf(binary)}`, binary };
}

function versionOf(binary) {
  return /\bv=(\S+)/.exec(execFileSync(binary, ['--version'], { encoding: 'utf8' }))[1];
}

/** Returns the figures of a pair that have a target, and how often waiters or exclusion failed. */
export const judgedIn = (results) =>
  results.flatMap(({ id, targets, failed }) =>
    failed === undefined
      ? targets.filter(({ comparison }) => comparison !== undefined).map((one) => ({ id, ...one }))
      : [{ id, name: 'failed', unmeasured: failed, met: false }],
  );
