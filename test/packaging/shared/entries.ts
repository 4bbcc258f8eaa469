// Every entry point of the package, by its path in `exports`.
import * as root from 'nestjs-redis-lock';
import * as board from 'nestjs-redis-lock/board';
import * as events from 'nestjs-redis-lock/events';
import * as fence from 'nestjs-redis-lock/fence';
import * as nodeRedis from 'nestjs-redis-lock/node-redis';
import * as opentelemetry from 'nestjs-redis-lock/opentelemetry';
import * as prometheus from 'nestjs-redis-lock/prometheus';
import * as quorum from 'nestjs-redis-lock/quorum';
import * as redisson from 'nestjs-redis-lock/redisson';
import * as standalone from 'nestjs-redis-lock/standalone';
import * as terminus from 'nestjs-redis-lock/terminus';
import * as testing from 'nestjs-redis-lock/testing';
import * as timestamp from 'nestjs-redis-lock/timestamp';
import * as transactional from 'nestjs-redis-lock/transactional';

export const entries: Readonly<Record<string, object>> = {
  '.': root,
  './board': board,
  './events': events,
  './fence': fence,
  './node-redis': nodeRedis,
  './opentelemetry': opentelemetry,
  './prometheus': prometheus,
  './quorum': quorum,
  './redisson': redisson,
  './standalone': standalone,
  './terminus': terminus,
  './testing': testing,
  './timestamp': timestamp,
  './transactional': transactional,
};

/** What TypeScript, or Node's `require` of an ES module, adds to the names. */
const ADDED = ['default', 'module.exports'];

/** Returns the names that an entry point exports. */
export function namesOf(namespace: object): string[] {
  return Object.keys(namespace).filter((name) => !ADDED.includes(name));
}

/** Returns the names of all entry points. */
export function allNames(): Record<string, string[]> {
  return Object.fromEntries(Object.entries(entries).map(([path, namespace]) => [path, namesOf(namespace)]));
}
