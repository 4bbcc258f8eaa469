// What is wrong with a run. A run with a fault ends with an error, and its results are not written.

/** Returns violated exclusion, fallen tokens, stuck waiters and failures. A missed target is a result. */
exports.faultsOfBench = function faultsOfBench(scenarios) {
  const faults = [];
  for (const { id, rows = [], failed } of scenarios) {
    if (failed !== undefined) faults.push(`${id}: ${failed}`);
    for (const { name, kind, failed: failure, exclusion, stuck } of rows) {
      if (kind === 'peer') continue;
      if (failure !== undefined) faults.push(`${id}: ${name}: ${failure}`);
      if (stuck > 0) faults.push(`${id}: ${name}: ${stuck} waiters did not get a free lock`);
      const { violations = 0, fallingTokens = 0 } = exclusion ?? {};
      if (violations === 0 && fallingTokens === 0) continue;
      faults.push(`${id}: ${name}: ${violations} violations, ${fallingTokens} tokens that do not rise`);
    }
  }
  return faults;
};
