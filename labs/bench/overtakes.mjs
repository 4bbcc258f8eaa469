// Overtakes by the clients' clocks. A task counts as waiting once it has read its clock, before its request reaches the
// server. queue-order.mjs has the order of the server.

/**
 * Returns two counts over the grants of one round, in the order of the grants:
 *
 * - **process**: a process waits for a grant from the end of its last grant, or from when its first task began to wait
 * if
 *   none was waiting then. Each grant to a task of another process that began to wait later overtakes it.
 * - **task**: each grant during its wait to a task that began to wait later overtakes it.
 *
 * The first wait of a process is not counted: the order of the first requests cannot be observed.
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
  // The oldest waiter.
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
