// What is wrong with a run. A run with a fault ends with an error, and its results are not written.

/** Returns violated exclusion, fallen tokens, stuck waiters and failures. A missed target is a result. */
exports.faultsOfBench = function faultsOfBench(scenarios, versions) {
  const faults = [];
  for (const { id, rows = [], failed } of scenarios) {
    if (failed !== undefined) faults.push(`${id}: ${failed}`);
    for (const { name, kind, failed: failure, exclusion, stuck } of rows) {
      if (kind === 'peer' || kind === 'before') continue;
      if (failure !== undefined) faults.push(`${id}: ${name}: ${failure}`);
      if (stuck > 0) faults.push(`${id}: ${name}: ${stuck} waiters did not get a free lock`);
      const { violations = 0, fallingTokens = 0 } = exclusion ?? {};
      if (violations === 0 && fallingTokens === 0) continue;
      faults.push(`${id}: ${name}: ${violations} violations, ${fallingTokens} tokens that do not rise`);
    }
  }
  for (const { node, server, figures } of versions) {
    for (const { id, name, unmeasured } of figures) {
      if (name === 'failed') faults.push(`${node}, ${server}: ${id}: ${unmeasured}`);
    }
  }
  return faults;
};

/** Returns how many instances did not get a lock, for `npm run bench:start`. */
exports.faultsOfStart = function faultsOfStart(outcomes) {
  return outcomes
    .filter(({ failures }) => failures > 0)
    .map(({ instances, apart, failures, errors }) => {
      const locks = apart ? 'a lock of their own' : 'the same lock';
      return `${failures} of ${instances} instances did not get ${locks}: ${errors.join(', ')}`;
    });
};

/** Returns the steps that were never seen, for `npm run bench:timeline`. */
exports.faultsOfTimeline = function faultsOfTimeline({ handoffs, steps, floors }) {
  const missing = [...steps, ...floors].filter(({ median, p99 }) => !Number.isFinite(median) || !Number.isFinite(p99));
  return missing.map(({ name }) => `${name}: not measured, in ${handoffs} handoffs`);
};
