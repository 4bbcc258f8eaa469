// Who was overtaken by whom, from the clocks of the clients: whoever has looked at its clock counts as waiting, though the server
// does not know of it before its request arrives. What the server knows is in queue-order.mjs.

/**
 * Two counts over the grants of one round, in the order in which they were given:
 *
 * - **process**: a process waits for a grant from the end of its last one (or from when its first task began to wait, if none
 *   was waiting then). It is overtaken by each grant to a task of another process that has begun to wait for it later.
 * - **task**: a task is overtaken by each grant, during its wait, to a task that began to wait later.
 *
 * A process's first wait does not count as one that is overtaken: which ask of the start came first cannot be told from outside.
 *
 * @param {readonly { task: Float64Array, began: Float64Array, granted: Float64Array, ended: Float64Array }[]} records
 */
export function overtakes(records, stopAt) {
  const grants = records.flatMap((record, process) => processWaits(record, process));
  grants.sort((a, b) => a.granted - b.granted);
  const perProcess = count(grants, 'processBegan', stopAt, (wait, other) => wait.process !== other.process);
  const perTask = count(grants, 'began', stopAt, () => true);
  return { perProcess, perTask };
}

function processWaits({ task, began, granted, ended }, process) {
  const order = Array.from(granted, (_, i) => i).toSorted((a, b) => granted[a] - granted[b]);
  const seen = new Set();
  const grants = order.map((i, place) => {
    const first = !seen.has(task[i]);
    seen.add(task[i]);
    return { process, first, firstOfProcess: place === 0, began: began[i], granted: granted[i], ended: ended[i] };
  });
  // The oldest of those that still wait.
  let oldest = Infinity;
  for (let i = grants.length - 1; i >= 0; i--) {
    oldest = Math.min(oldest, grants[i].began);
    grants[i].processBegan = Math.max(oldest, i === 0 ? -Infinity : grants[i - 1].ended);
  }
  return grants;
}

function count(grants, since, stopAt, counts) {
  let waits = 0;
  let total = 0;
  let most = 0;
  for (let i = 0; i < grants.length; i++) {
    const wait = grants[i];
    if (wait.granted > stopAt || (since === 'began' ? wait.first : wait.firstOfProcess)) continue;
    let passed = 0;
    for (let j = i - 1; j >= 0 && grants[j].granted > wait[since]; j--) {
      if (grants[j][since] > wait[since] && counts(wait, grants[j])) passed += 1;
    }
    waits += 1;
    total += passed;
    most = Math.max(most, passed);
  }
  return { mean: waits === 0 ? 0 : total / waits, most };
}
