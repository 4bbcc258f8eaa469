// A chart of the comparable scenarios, as SVG that can be read on light and on dark pages.
import { significant } from './format.mjs';

const PANELS = [
  { id: '1', figure: 'us', title: '1 Uncontended cycle', unit: 'µs', better: 'less' },
  { id: '1b', figure: 'us', title: '1b The same, cold', unit: 'µs', better: 'less' },
  { id: '2', figure: 'perSecond', title: '2 Distinct keys, 100 tasks', unit: 'cycles/s', better: 'more' },
  { id: '2', figure: 'cpuUs', title: '2 CPU of a cycle', unit: 'µs', better: 'less' },
  { id: '3', figure: 'msPerHandoff', title: '3 One key, 50 tasks', unit: 'ms a handoff', better: 'less' },
  { id: '4', figure: 'msPerHandoff', title: '4 One key, 4 processes × 10', unit: 'ms a handoff', better: 'less' },
  { id: '4b', figure: 'msPerHandoff', title: '4b The same, local handoff off', unit: 'ms a handoff', better: 'less' },
  { id: '4', longest: true, title: '4 Longest wait', unit: 'ms', better: 'less' },
  { id: '5', figure: 'perSecond', title: '5 100 waiters', unit: 'commands/s', better: 'less' },
  { id: '6', figure: 'ms', title: '6 Release → grant', unit: 'ms', better: 'less' },
];

const COLUMNS = 2;
const WIDTH = 960;
const MARGIN = 16;
const HEAD = 34;
const ROW = 20;
const LABEL = 236;
const VALUE = 62;

const STYLE = `
  .page { fill: #ffffff } text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 13px }
  .quiet { fill: #59636e } .floor { fill: #afb8c1 }
  .peer { fill: #6e8fc7 } .ours { fill: #1a7f37 }
  .own { font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } text { fill: #e6edf3 } .quiet { fill: #9198a1 } .floor { fill: #59636e }
    .peer { fill: #4a6ba8 }
    .ours { fill: #3fb950 }
  }`;

export function chart({ scenarios, quick }) {
  const panels = PANELS.flatMap((panel) => {
    const scenario = scenarios.find(({ id }) => id === panel.id);
    // Other settings of an entry are in the tables.
    const has = ({ figures }) => (panel.longest ? figures : figures?.[panel.figure]) !== undefined;
    const shown = scenario?.rows?.filter((row) => has(row) && row.variantOf === undefined) ?? [];
    const bars = shown.map((row) => bar(panel, row));
    return bars.length === 0 ? [] : [{ ...panel, bars }];
  });
  const width = (WIDTH - MARGIN * (COLUMNS + 1)) / COLUMNS;
  let y = MARGIN;
  const parts = [];
  for (let i = 0; i < panels.length; i += COLUMNS) {
    const line = panels.slice(i, i + COLUMNS);
    line.forEach((panel, column) => parts.push(drawn(panel, MARGIN + column * (width + MARGIN), y, width)));
    y += HEAD + Math.max(...line.map(({ bars }) => bars.length)) * ROW + MARGIN;
  }
  const title = `Locks on Redis compared${quick ? ' (a quick run)' : ''}`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y}" role="img" aria-label="${title}">
<title>${title}</title>
<style>${STYLE}
</style>
<rect class="page" width="${WIDTH}" height="${y}"/>
${parts.join('\n')}
</svg>
`;
}

function bar({ figure, longest }, row) {
  return {
    name: row.name.replaceAll('`', '').replace('nestjs-redis-lock, using', 'using'),
    kind: row.kind,
    value: longest ? row.longest : row.figures[figure].median,
  };
}

function drawn({ title, unit, better, bars }, x, y, width) {
  const most = Math.max(...bars.map(({ value }) => value));
  const room = width - LABEL - VALUE;
  const rows = bars.map(({ name, kind, value }, i) => {
    const top = y + HEAD + i * ROW;
    const length = most === 0 ? 0 : Math.max(1, (value / most) * room);
    const own = kind === 'ours' ? ' class="own"' : '';
    return `<text${own} x="${x + LABEL - 8}" y="${top + 13}" text-anchor="end">${escaped(name)}</text>
<rect class="${kind}" x="${x + LABEL}" y="${top + 2}" width="${length.toFixed(1)}" height="${ROW - 5}" rx="2"/>
<text${own} x="${(x + LABEL + length + 6).toFixed(1)}" y="${top + 13}">${significant(value)}</text>`;
  });
  return `<g>
<text class="title" x="${x}" y="${y + 14}">${escaped(title)}</text>
<text class="quiet" x="${x + width}" y="${y + 14}" text-anchor="end">${unit}, ${better} is better</text>
${rows.join('\n')}
</g>`;
}

const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
