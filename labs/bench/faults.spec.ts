import { describe, expect, it } from '@jest/globals';
import { faultsOfBench, faultsOfStart, faultsOfTimeline } from './faults.cjs';

describe('a run of the benchmark', () => {
  const sound = { violations: 0, fallingTokens: 0 };
  const rowsOf = (row: object): object[] => [{ id: '3', rows: [{ name: 'locks', kind: 'ours', ...row }] }];
  const figure = { id: '1', name: 'rate', value: 1, comparison: '>=', met: false };

  it('has no fault if it only misses a target, or if another library fails', () => {
    const peers = ['peer', 'before'].map((kind) => ({
      name: kind,
      kind,
      failed: 'x',
      stuck: 1,
      exclusion: { violations: 1 },
    }));
    const scenarios = [...rowsOf({ exclusion: sound, stuck: 0 }), { id: '4', rows: peers, targets: [figure] }];
    const versions = [
      { node: 'Node 20', server: 'Redis 7', figures: [figure] },
      { node: 'Node 22', server: 'Redis 7', figures: [], reason: 'not available' },
    ];
    expect(faultsOfBench(scenarios, versions)).toEqual([]);
  });

  it.each<[object[], string]>([
    [[{ id: '3', failed: 'redis-server does not reply.' }], '3: redis-server does not reply.'],
    [rowsOf({ failed: 'LockTimeoutError' }), '3: locks: LockTimeoutError'],
    [rowsOf({ stuck: 2 }), '3: locks: 2 waiters did not get a free lock'],
    [rowsOf({ exclusion: { ...sound, violations: 1 } }), '3: locks: 1 violations, 0 tokens that do not rise'],
    [rowsOf({ exclusion: { ...sound, fallingTokens: 1 } }), '3: locks: 0 violations, 1 tokens that do not rise'],
  ])('has a fault: %j', (scenarios, fault) => {
    expect(faultsOfBench(scenarios, [])).toEqual([fault]);
  });

  it('has a fault if a scenario fails on one of the versions', () => {
    const failed = { id: '1', name: 'failed', unmeasured: 'it ended early', met: false };
    const versions = [{ node: 'Node 20', server: 'Redis 7', figures: [figure, failed] }];
    expect(faultsOfBench([], versions)).toEqual(['Node 20, Redis 7: 1: it ended early']);
  });
});

it('a start of many instances has a fault if some did not get their lock', () => {
  const outcome = { instances: 500, apart: false, failures: 0, errors: [] };
  expect(faultsOfStart([outcome, { ...outcome, apart: true }])).toEqual([]);
  const failed = { ...outcome, failures: 500, errors: ['LockUnavailableError'] };
  expect(faultsOfStart([failed, { ...failed, apart: true, failures: 1 }])).toEqual([
    '500 of 500 instances did not get the same lock: LockUnavailableError',
    '1 of 500 instances did not get a lock of their own: LockUnavailableError',
  ]);
});

it('a timeline has a fault if a step was not measured', () => {
  const [step, floor] = ['release', 'floor'].map((name) => ({ name, median: 1, p99: 2 }));
  expect(faultsOfTimeline({ handoffs: 9, steps: [step], floors: [floor] })).toEqual([]);
  const steps = [step, { name: 'reply', median: NaN, p99: NaN }];
  expect(faultsOfTimeline({ handoffs: 0, steps, floors: [floor] })).toEqual(['reply: not measured, in 0 handoffs']);
});
