import { announce, byId, count, duration, el, resourceElement, setText, visible, wholeSeconds } from './text.js';

/** Lost locks and plots belong to an instance. Behind a load balancer the replies come from several of them. */
const instances = new Map();
const RECENT_MS = 300_000;
/** An instance that has not replied for so long may have ended. */
const PRESENT_MS = 30_000;
const STATES = ['unknown', 'good', 'warn', 'bad'];
let lostUnsaid = 0;
let lostSaidAt = -Infinity;

/** Returns whether an instance has replied lately. */
export function isRecent(id) {
  return performance.now() - (instances.get(id)?.seenAt ?? -Infinity) < PRESENT_MS;
}

/** Keeps what a reply says of its instance, and shows what is known of all instances. */
export function showInstance(state) {
  const { id } = state.instance;
  const before = instances.get(id);
  const { lostCount, plots: bars, servers, lost = before?.lost ?? [] } = state;
  // Times of the instance's clock, which may differ from the browser's.
  const aheadMs = bars.now - Date.now();
  instances.set(id, { ...state.instance, lost, lostCount, bars, servers, aheadMs, seenAt: performance.now() });
  if (before !== undefined) announceLost(lostCount - before.lostCount);
  forgetOld();
  showServers();
  showLost();
  showPlots([...instances.values()].map((each) => each.bars));
  const names = [...instances.values()].map(instanceName).join(', ');
  const whose = `Waits and holds are those of callers of ${names}. Locks are those of all instances, while you look.`;
  setText(byId('plots-note'), `A bar is 5 s. ${whose}`);
}

export const lostHash = (id) => instances.get(id)?.lost && `${id}.${instances.get(id).lostCount}`;

/** Returns what the page calls an instance. */
export const instanceName = ({ identity, id }) => identity ?? `instance ${id}`;

/** An instance that was replaced no longer sends replies. */
function forgetOld() {
  for (const [id, { seenAt }] of instances) if (performance.now() - seenAt > RECENT_MS) instances.delete(id);
}

/** Many locks may be lost in one minute. A screen reader says their number every ten seconds at most. */
function announceLost(number) {
  lostUnsaid += number;
  if (lostUnsaid === 0 || performance.now() - lostSaidAt < 10_000) return;
  announce(`${count(lostUnsaid, 'lock')} lost`);
  lostUnsaid = 0;
  lostSaidAt = performance.now();
}

/** Shows the servers as the instance sees them that has the most trouble. Announces a change of the verdict. */
function showServers() {
  const present = [...instances.values()].filter(({ id }) => isRecent(id));
  const views = present.map(({ servers }) => ({ servers, ...verdictOf(servers) }));
  const rank = ({ state }) => STATES.indexOf(state);
  const { servers, state, text } = views.reduce((worst, each) => (rank(each) > rank(worst) ? each : worst));
  const verdict = byId('verdict');
  if (verdict.dataset.state !== state && verdict.dataset.state !== 'unknown') announce(text);
  verdict.dataset.state = state;
  setText(byId('verdict-text'), text);
  const list = byId('servers');
  const shown = JSON.stringify(servers?.ping?.servers.map((each) => ({ ...each, latencyMs: shortLatency(each) })));
  if (list.dataset.shown === shown) return;
  list.dataset.shown = shown ?? '';
  const items = (servers?.ping?.servers ?? []).map((server) => {
    const latency = shortLatency(server);
    const item = el('li', '', el('strong', '', ...visible(server.server)), server.isUp ? ' up' : ' does not reply');
    if (latency !== undefined) item.append(`, ${latency}`);
    if (server.error !== undefined) item.append(': ', ...visible(server.error));
    return item;
  });
  list.replaceChildren(...items);
}

const shortLatency = ({ latencyMs }) => (typeof latencyMs === 'number' ? duration(latencyMs) : undefined);

function verdictOf(servers) {
  if (servers === undefined) return { state: 'unknown', text: 'Waiting for the servers to reply…' };
  const { ping, problem } = servers;
  if (ping === undefined) return { state: 'warn', text: `The state of the servers is not known: ${problem}` };
  const down = ping.servers.filter(({ isUp }) => !isUp).length;
  if (!ping.isUp) {
    const which = ping.servers.length === 1 ? 'No lock can be acquired' : 'Some locks, or all, cannot be acquired';
    return { state: 'bad', text: `${which}: ${down} of ${count(ping.servers.length, 'server')} did not reply.` };
  }
  if (ping.degraded !== undefined)
    return { state: 'warn', text: `Locks work, but not as they should: ${ping.degraded}` };
  const { length } = ping.servers;
  if (down > 0)
    return { state: 'warn', text: `Locks work. Only ${length - down} of ${count(length, 'server')} reply.` };
  const how = ping.handoff === 'polling' ? 'Waiting instances poll.' : 'Waiting instances are notified at once.';
  return { state: 'good', text: `Locks work. ${how}` };
}

function showLost() {
  const all = [...instances.values()].flatMap((each) => {
    return each.lost.map((lost) => ({ ...lost, at: lost.at - each.aheadMs, by: instanceName(each) }));
  });
  all.sort((a, b) => b.at - a.at);
  const total = [...instances.values()].reduce((sum, { lostCount }) => sum + lostCount, 0);
  const whose = [...instances.values()].map((each) => `${instanceName(each)}, up for ${upTime(each)}`).join(' and ');
  const summary = total === 0 ? 'No lock was lost' : `${count(total, 'lock')} lost`;
  setText(byId('lost-summary'), `${summary} by callers of ${whose}. Other instances show theirs on their own pages.`);
  const isNews = all.some(({ at }) => Date.now() - at < RECENT_MS);
  byId('lost-summary').dataset.state = isNews ? 'warn' : '';
  byId('lost-note').hidden = !isNews;
  byId('lost-box').hidden = total === 0;
  const body = byId('lost');
  const shown = all.map(({ by, id }) => `${by} ${id}`).join('\n');
  if (body.dataset.shown !== shown) {
    body.dataset.shown = shown;
    body.replaceChildren(...all.slice(0, 50).map(lostRow));
  }
  const now = Date.now();
  for (const cell of body.querySelectorAll('td[data-at]'))
    setText(cell, `${wholeSeconds(Math.max(1_000, now - cell.dataset.at))} ago`);
}

function upTime({ upMs }) {
  const minutes = Math.floor(upMs / 60_000);
  if (minutes === 0) return 'less than a minute';
  return minutes < 60 ? `${minutes} min` : duration(minutes * 60_000);
}

function lostRow({ at, resource, heldMs, reason, by, method, label }) {
  const family = /^[^:]+/.exec(resource)?.[0] ?? resource;
  const why = reason === undefined ? ['The log of the instance says why.'] : visible(reason);
  const work = [method, label].filter((detail) => detail !== undefined).join(' ');
  const cells = [
    ['When', el('td', 'narrow')],
    ['Resource', el('td', '', resourceElement(resource, family))],
    ['Held for', el('td', 'narrow', duration(heldMs))],
    ['Why', el('td', '', ...why)],
    ['Lost by', el('td', '', ...visible(by), el('div', 'muted small', ...visible(work)))],
  ];
  cells[0][1].dataset.at = at;
  for (const [heading, cell] of cells) {
    cell.dataset.label = heading;
    cell.setAttribute('role', 'cell');
  }
  const row = el('tr', '', ...cells.map(([, cell]) => cell));
  row.setAttribute('role', 'row');
  return row;
}

const SVG = 'http://www.w3.org/2000/svg';
const HEIGHT = 40;
const STEP = 4;
/** The colours of a plot's two series. Which of them is the darker one depends on the scheme. */
const COLORS = ['pale', 'strong'];
let plots;

const PLOTS = [
  {
    title: 'Waits for a lock',
    series: ['longest', 'average'],
    format: duration,
    bars: ({ waits }) => [waits[2], waits[0] && waits[1] / waits[0]],
    caption: (all) =>
      durations(all, 'waits', 'request') +
      (sum(all, ({ refused }) => refused) > 0 ? `, ${sum(all, ({ refused }) => refused)} refused` : ''),
  },
  {
    title: 'Holds',
    series: ['longest', 'average'],
    format: duration,
    bars: ({ holds }) => [holds[2], holds[0] && holds[1] / holds[0]],
    caption: (all) => durations(all, 'holds', 'hold'),
  },
  {
    title: 'Locks and waiting instances',
    series: ['held', 'waiting'],
    format: (value) => String(value),
    bars: ({ held, waiting }) => [held ?? 0, waiting ?? 0],
    caption: (all) => {
      const last = all.findLast(({ held }) => typeof held === 'number');
      return last === undefined ? 'not known yet' : `${count(last.held, 'lock')} held, ${last.waiting} waiting`;
    },
  },
];

const sum = (all, of) => all.reduce((total, bucket) => total + of(bucket), 0);

function durations(all, field, noun) {
  const number = sum(all, (bucket) => bucket[field][0]);
  if (number === 0) return 'none';
  const mean = sum(all, (bucket) => bucket[field][1]) / number;
  const longest = Math.max(...all.map((bucket) => bucket[field][2]));
  return `${count(number, noun)}, ${duration(mean)} on average, ${duration(longest)} at most`;
}

function showPlots(given) {
  const { bucketMs, count: buckets } = given[0];
  const now = Math.max(...given.map((each) => each.now));
  plots ??= PLOTS.map((plot) => createPlot(plot, buckets));
  const merged = new Map();
  for (const { buckets: own } of given)
    for (const bucket of own) merged.set(bucket.at, merge(merged.get(bucket.at), bucket));
  const last = Math.floor(now / bucketMs);
  const all = Array.from({ length: buckets }, (_, i) => merged.get(last - buckets + 1 + i));
  const known = all.filter((bucket) => bucket !== undefined);
  PLOTS.forEach((plot, i) => fillPlot(plots[i], plot, all, known));
}

function merge(a, b) {
  if (a === undefined) return b;
  const join = ([n, total, most], [m, more, longest]) => [n + m, total + more, Math.max(most, longest)];
  const { held = b.held, waiting = b.waiting } = a;
  return {
    ...a,
    waits: join(a.waits, b.waits),
    holds: join(a.holds, b.holds),
    refused: a.refused + b.refused,
    held,
    waiting,
  };
}

function createPlot({ title, series }, buckets) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', `0 0 ${buckets * STEP} ${HEIGHT}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('aria-hidden', 'true');
  const bars = Array.from({ length: buckets }, (_, i) =>
    COLORS.map((className) => {
      const bar = document.createElementNS(SVG, 'rect');
      bar.setAttribute('class', className);
      bar.setAttribute('x', i * STEP);
      bar.setAttribute('width', STEP - 1);
      svg.append(bar);
      return bar;
    }),
  );
  const caption = el('span');
  const most = el('span');
  const axis = el('div', 'axis muted small', el('span', '', '5 min ago'), most, el('span', '', 'now'));
  axis.setAttribute('aria-hidden', 'true');
  const legend = el('p', 'legend muted small', ...series.map((name, i) => el('span', '', el('i', COLORS[i]), name)));
  byId('plots').append(el('figure', '', el('figcaption', '', el('b', '', `${title}: `), caption), svg, axis, legend));
  return { bars, caption, most };
}

function fillPlot({ bars, caption, most }, plot, all, known) {
  setText(caption, plot.caption(known));
  const values = all.map((bucket) => (bucket === undefined ? [0, 0] : plot.bars(bucket)));
  const highest = Math.max(...values.flat());
  setText(most, highest > 0 ? `top: ${plot.format(highest)}` : '');
  values.forEach((pair, i) => {
    pair.forEach((value, which) => {
      const height = value > 0 ? Math.max(1, (HEIGHT * value) / highest) : 0;
      bars[i][which].setAttribute('y', HEIGHT - height);
      bars[i][which].setAttribute('height', height);
    });
  });
}
