/**
 * Calls `call` for 0 … count − 1, with at most `tasks` calls at a time.
 *
 * @template T
 * @param {number} count
 * @param {number} tasks
 * @param {(i: number) => Promise<T>} call
 * @returns {Promise<T[]>}
 */
export async function inTasks(count, tasks, call) {
  const results = [];
  let next = 0;
  const task = async () => {
    while (next < count) {
      const i = next++;
      results[i] = await call(i);
    }
  };
  await Promise.all(Array.from({ length: tasks }, task));
  return results;
}
