// The requests of each virtual second, as SVG that can be read on light and on dark pages.
const WIDTH = 960;
const MARGIN = 16;
const HEAD = 26;
const PLOT = 90;
const FOOT = 24;
const LEFT = 56;

const STYLE = `
  .page { fill: #ffffff } text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 13px } .quiet { fill: #59636e } .bar { fill: #1a7f37 } .axis { stroke: #afb8c1 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } text { fill: #e6edf3 } .quiet { fill: #9198a1 } .bar { fill: #3fb950 }
    .axis { stroke: #59636e }
  }`;

/** @param {readonly { title: string, requestsBySecond: readonly number[] }[]} panels */
export function chart(panels) {
  const height = MARGIN + panels.length * (HEAD + PLOT + FOOT);
  const title = 'Requests a second of simulated instances';
  const parts = panels.map((panel, i) => drawn(panel, MARGIN + i * (HEAD + PLOT + FOOT)));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${title}">
<title>${title}</title>
<style>${STYLE}
</style>
<rect class="page" width="${WIDTH}" height="${height}"/>
${parts.join('\n')}
</svg>
`;
}

function drawn({ title, requestsBySecond }, top) {
  const room = WIDTH - LEFT - MARGIN;
  const step = room / requestsBySecond.length;
  const most = Math.max(...requestsBySecond);
  const floor = top + HEAD + PLOT;
  // Powers of ten have the same distance, because some seconds have a hundred times as many requests as others.
  const heightOf = (value) => (value < 1 ? 0 : (Math.log10(value) / Math.log10(most)) * PLOT);
  const bars = requestsBySecond.map((value, second) => {
    const height = heightOf(value);
    const [x, y] = [LEFT + second * step, floor - height].map((each) => each.toFixed(1));
    return `<rect class="bar" x="${x}" y="${y}" width="${Math.max(0.5, step - 1).toFixed(1)}" height="${height.toFixed(1)}"/>`;
  });
  const marks = [10, 100, 1_000, 10_000].filter((mark) => mark <= most);
  const labels = marks.map((mark) => {
    const y = (floor - heightOf(mark)).toFixed(1);
    const line = `<line class="axis" x1="${LEFT}" x2="${WIDTH - MARGIN}" y1="${y}" y2="${y}" stroke-dasharray="2 4"/>`;
    return `${line}<text class="quiet" x="${LEFT - 8}" y="${y}" dy="4" text-anchor="end">${mark.toLocaleString('en')}</text>`;
  });
  return `<g>
<text class="title" x="${MARGIN}" y="${top + 12}">${title}</text>
<text class="quiet" x="${WIDTH - MARGIN}" y="${top + 12}" text-anchor="end">requests a second of one master</text>
${bars.join('\n')}
${labels.join('\n')}
<line class="axis" x1="${LEFT}" x2="${WIDTH - MARGIN}" y1="${floor}" y2="${floor}"/>
<text class="quiet" x="${LEFT}" y="${floor + 16}">0 s</text>
<text class="quiet" x="${WIDTH - MARGIN}" y="${floor + 16}" text-anchor="end">${requestsBySecond.length} s</text>
</g>`;
}
