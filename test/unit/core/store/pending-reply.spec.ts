import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { PendingReply, whenReplied } from '../../../../lib/core/store/pending-reply.js';

const ROOT = join(__dirname, '../../../..');
const HOOKS = join(ROOT, 'test/support/typescript-hooks.mjs');

/** An uncaught error ends the worker of a test, so this runs in a process of its own. */
const FAULT = `
  import { PendingReply, whenReplied } from '${ROOT}/lib/core/store/pending-reply.ts';
  process.on('uncaughtException', ({ message }) => console.log('then thrown: ' + message));
  const fail = () => { throw new Error('a fault'); };
  const reply = new PendingReply();
  whenReplied(reply, { onReply: fail, onFailed: fail });
  reply.resolve('granted');
  process.stdout.write('reported, ');
`;

function listened(reply: PromiseLike<string>): string[] {
  const log: string[] = [];
  whenReplied(reply, {
    onReply: (value) => void log.push(value),
    onFailed: (error) => void log.push(String(error)),
  });
  return log;
}

describe('PendingReply', () => {
  it('calls its listener at once', () => {
    const [granted, failed] = [new PendingReply<string>(), new PendingReply<string>()];
    const logs = [listened(granted), listened(failed)];
    granted.resolve('granted');
    failed.reject(new Error('no connection'));
    expect(logs).toEqual([['granted'], ['Error: no connection']]);
  });

  it('calls a listener that comes later in a promise job', async () => {
    const [granted, failed] = [new PendingReply<string>(), new PendingReply<string>()];
    granted.resolve('granted');
    failed.reject(new Error('no connection'));
    const logs = [listened(granted), listened(failed)];
    expect(logs).toEqual([[], []]);
    await Promise.resolve();
    expect(logs).toEqual([['granted'], ['Error: no connection']]);
  });

  it('can be awaited, before and after its outcome', async () => {
    const [early, late] = [new PendingReply<string>(), new PendingReply<string>()];
    early.resolve('granted');
    const both = Promise.all([early, late]);
    late.resolve('held');
    expect(await both).toEqual(['granted', 'held']);
    expect(await late).toBe('held');
    const failed = new PendingReply<string>();
    failed.reject(new Error('no connection'));
    await expect(failed).rejects.toThrow('no connection');
  });

  it('does not throw the error of a listener where its outcome is reported', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [
      '--import',
      HOOKS,
      '--input-type=module',
      '-e',
      FAULT,
    ]);
    expect(stdout).toBe('reported, then thrown: a fault\n');
  });
});
