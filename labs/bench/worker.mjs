// The main of a forked process: serves calls with the exports of its scenario until its parent ends.
import process from 'node:process';

process.on('disconnect', () => process.exit());

const { run, ops = {} } = await import(new URL(process.argv[2], new URL('scenarios/', import.meta.url)).href);
const served = { run, ...ops };

async function answer({ id, op, args }) {
  try {
    return { id, result: await served[op](...args) };
  } catch (error) {
    return { id, error: error instanceof Error ? error : new Error(String(error)) };
  }
}

process.on('message', (call) => {
  void answer(call).then((reply) => process.connected && process.send(reply));
});
