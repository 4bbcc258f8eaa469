// The generated part of the README.
import { number, table } from './format.mjs';

const OURS = 'nestjs-redis-lock';

/** Returns three figures beside the best peer of each: the table of the README. */
export function headline({ scenarios, machine, date }) {
  const compared = [
    ['from one of 50 callers in a process to the next', '3', ({ msPerHandoff }) => msPerHandoff.median * 1_000],
    ['from one of 40 callers in four processes to the next', '4', ({ msPerHandoff }) => msPerHandoff.median * 1_000],
    ['acquire and release a free lock', '1', ({ us }) => us.median],
  ];
  const rows = compared.map(([what, id, usOf]) => {
    const measured = scenarios.find((scenario) => scenario.id === id).rows.filter((row) => row.figures !== undefined);
    const [peer] = measured
      .filter(({ kind }) => kind === 'peer')
      .toSorted((one, other) => usOf(one.figures) - usOf(other.figures));
    const ours = measured.find(({ name }) => name === OURS);
    return [what, `${number(usOf(ours.figures), 0)} µs`, `${number(usOf(peer.figures), 0)} µs (${peer.name})`];
  });
  const { processor, cores } = machine;
  return [
    table(['', 'this library', 'fastest other library'], rows),
    `Medians of \`npm run bench\` on ${processor}, ${cores} cores, ${date}. More: [What a lock costs](docs/production.md#what-a-lock-costs).`,
  ].join('\n\n');
}
