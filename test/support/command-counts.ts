import type { Redis } from 'ioredis';

/** Commands that only clients send. A script runs the others. */
const SENT = /^(?:eval|evalsha|script\|load|s?subscribe|s?unsubscribe)$/;
const UNRELATED = /^(?:info|config\|resetstat|config|ping|hello|client.*|cluster.*)$/;

/** What some work costs the servers. */
export interface Cost {
  /** Commands that clients have sent. */
  readonly commands: number;
  /** Commands that the servers have run, including those of scripts. */
  readonly calls: number;
}

/** Returns what the work costs on these servers, to which nobody else sends commands. */
export async function costOf(work: () => Promise<unknown>, admins: readonly Redis[]): Promise<Cost> {
  await Promise.all(admins.map((each) => each.config('RESETSTAT')));
  await work();
  const stats = (await Promise.all(admins.map((each) => each.info('commandstats')))).join('\n');
  const counted = [...stats.matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm)].filter(([, name]) => !UNRELATED.test(name));
  const sum = (matches: readonly RegExpMatchArray[]): number =>
    matches.reduce((total, [, , calls]) => total + Number(calls), 0);
  return { commands: sum(counted.filter(([, name]) => SENT.test(name))), calls: sum(counted) };
}
