// Shows what the instances recorded. It requests that from one of them four times a second.
const POLL_MS = 250;
const TIMEOUT_MS = 5_000;
const ANNOUNCE_MS = 5_000;
const LATEST = 8;
const PLOT = { width: 300, height: 48, ms: 15_000, most: 10 };
const SIDES = ['unlocked', 'locked'];
const NOT_SOLD = { 'sold-out': 'sold out', busy: 'waited too long for the lock', failed: 'failed' };

const find = (selector, within = document) => within.querySelector(selector);
const rate = find('#rate');
const rateValue = find('#rate-value');
const again = find('#again');
const phase = find('#phase');
const trouble = find('#trouble');
const totals = find('#totals');

function element(name, text = '', attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  return made;
}

/** One of the two columns. */
class Side {
  constructor(name) {
    this.root = find(`[data-side=${name}]`);
    this.grid = find('.pieces', this.root);
    this.list = find('.buyers', this.root);
    this.line = find('polyline', this.root);
    this.values = Object.fromEntries(
      [...this.root.querySelectorAll('[data-total]')].map((value) => [value.dataset.total, value]),
    );
    this.begin(0);
  }

  begin(stock) {
    this.stock = stock;
    this.sold = 0;
    this.lowest = stock;
    this.points = [{ at: 0, oversold: 0 }];
    this.times = new Map();
    this.grid.replaceChildren(...Array.from({ length: stock }, () => element('i')));
    this.list.replaceChildren();
  }

  add({ outcome, piece, instance, at }, colour) {
    if (outcome !== 'sold') return this.log(colour, instance, element('span', NOT_SOLD[outcome], { class: 'none' }));
    const times = (this.times.get(piece) ?? 0) + 1;
    this.times.set(piece, times);
    // Replies of several instances may overtake each other. The lowest piece shows what is left.
    this.sold += 1;
    this.lowest = Math.min(this.lowest, piece - 1);
    this.points.push({ at, oversold: Math.max(0, this.sold + this.lowest - this.stock) });
    const square = this.grid.children[this.stock - piece];
    if (square !== undefined) this.paint(square, colour, times);
    const text = times === 1 ? element('span', `piece ${piece}`) : element('b', `piece ${piece}, sold ${times} times`);
    this.log(colour, instance, text);
  }

  paint(square, colour, times) {
    square.dataset.instance ??= colour;
    if (times === 1) return;
    square.dataset.twice = '';
    square.textContent = times;
  }

  log(colour, instance, text) {
    const line = element('li');
    line.append(element('i', '', { 'data-instance': colour }), element('span', `:${instance}`), text);
    this.list.prepend(line);
    while (this.list.children.length > LATEST) this.list.lastElementChild.remove();
  }

  show(figures) {
    for (const [name, value] of Object.entries(this.values)) value.textContent = figures[name];
    this.root.classList.toggle('isBad', figures.oversold > 0);
  }

  plot(elapsedMs, most) {
    const x = (at) => ((at / elapsedMs) * PLOT.width).toFixed(1);
    const y = (oversold) => (PLOT.height - 2 - (oversold / most) * (PLOT.height - 6)).toFixed(1);
    const last = this.points.at(-1);
    const points = [...this.points, { ...last, at: Math.max(last.at, this.endMs ?? 0) }];
    this.line.setAttribute('points', points.map(({ at, oversold }) => `${x(at)},${y(oversold)}`).join(' '));
  }

  get most() {
    return this.points.at(-1).oversold;
  }
}

const sides = Object.fromEntries(SIDES.map((name) => [name, new Side(name)]));
let known = { id: 0, next: 0 };
let hasLooked = false;
let announcedAt = -Infinity;
let wasOver = true;

function showPage({ instances, instance, inMemory, sale }) {
  find('#instances').replaceChildren(
    ...instances.flatMap((port, i) => {
      const name = element('span');
      name.append(element('i', '', { 'data-instance': (i % 3) + 1 }), ` :${port}`);
      return i === 0 ? [name] : [', ', name];
    }),
  );
  find('#subtitle').textContent = `${sale.stock} pieces. The same buyers order on both sides at once. One has a lock.`;
  find('#store').textContent = inMemory
    ? `There is no Redis: stock and locks are in the memory of one process, on port ${instance}.`
    : `The stock is in Redis. ${instances.length} processes sell it. This page comes from the one on port ${instance}.`;
}

function show(state) {
  const { sale, purchases, instances, isOver } = state;
  if (sale.id !== known.id) {
    for (const side of Object.values(sides)) side.begin(sale.stock);
    showPage(state);
    announcedAt = performance.now();
  }
  known = { id: sale.id, next: state.next };
  for (const purchase of purchases) {
    sides[purchase.side].add(purchase, (Math.max(0, instances.indexOf(purchase.instance)) % 3) + 1);
  }
  const endMs = Math.max(...Object.values(sides).map(({ points }) => points.at(-1).at));
  const most = Math.max(PLOT.most, ...Object.values(sides).map((side) => side.most));
  for (const [name, side] of Object.entries(sides)) {
    side.endMs = endMs;
    side.show(state.sides[name]);
    side.plot(Math.max(PLOT.ms, endMs), most);
  }
  if (document.activeElement !== rate) showRate(sale.perSecond);
  document.body.dataset.over = isOver;
  phase.textContent = isOver ? 'Sold out' : 'Selling …';
  announce(state);
}

/** Screen readers get the totals now and then, and at the end. */
function announce({ sides: { locked, unlocked }, isOver }) {
  const ends = isOver && !wasOver;
  wasOver = isOver;
  if (!ends && (isOver || performance.now() < announcedAt + ANNOUNCE_MS)) return;
  announcedAt = performance.now();
  const side = ({ sold, oversold }) => `${sold} sold, ${oversold} oversold`;
  totals.textContent = `${isOver ? 'The sale is over. ' : ''}Without a lock ${side(unlocked)}. With a lock ${side(locked)}.`;
}

function showRate(perSecond) {
  rate.value = perSecond;
  rateValue.textContent = perSecond;
}

async function request(path, init = {}) {
  const response = await fetch(path, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) }).catch(() => {
    throw new Error('This instance does not reply.');
  });
  if (!response.ok) throw new Error(`This instance replies ${response.status} ${response.statusText}.`);
  return response;
}

function send(method) {
  const body = JSON.stringify({ perSecond: Number(rate.value) });
  return request('sale', { method, body, headers: { 'Content-Type': 'application/json' } });
}

/** Runs an action of the page, and shows its error. The next look at the instance removes it. */
async function attempt(action) {
  try {
    await action();
    trouble.hidden = true;
  } catch (error) {
    trouble.textContent = error.message;
    trouble.hidden = false;
  }
}

async function look() {
  let state = await (await request(`sale?sale=${known.id}&after=${known.next}`)).json();
  // A page that is opened while no sale runs starts one.
  if (!hasLooked && state.isOver) {
    await send('POST');
    state = await (await request('sale')).json();
  }
  hasLooked = true;
  if (state.sale !== null) show(state);
}

rate.addEventListener('input', () => void (rateValue.textContent = rate.value));
rate.addEventListener('change', () => attempt(() => send('PATCH')));
again.addEventListener('click', () => attempt(() => send('POST')));

for (;;) {
  if (!document.hidden) await attempt(look);
  await new Promise((resolve) => setTimeout(resolve, POLL_MS));
}
