// Shows what the instances recorded. It requests that from one of them four times a second.
const POLL_MS = 250;
const TIMEOUT_MS = 5_000;
const ANNOUNCE_MS = 5_000;
const LATEST = 8;
const PLOT = { width: 300, height: 48, ms: 15_000, most: 10 };
const SIDES = ['unlocked', 'locked'];
const NOT_SOLD = { 'sold-out': 'sold out', busy: 'waited too long for the lock', failed: 'failed' };
/** Characters that cannot be seen, or that change how others are shown, for example the direction of text. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|[^\S ]|(?<=\p{M}\p{M})\p{M}/gu;

const find = (selector, within = document) => within.querySelector(selector);
const rate = find('#rate');
const rateValue = find('#rate-value');
const phase = find('#phase');
const trouble = find('#trouble');
const totals = find('#totals');

function element(name, text = '', attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  return made;
}

/** Sets a text if it is another one, so that nothing is read aloud twice. */
function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/** Returns a name as text with a direction of its own. What is hidden in it is written as its number. */
function nameOf(buyer) {
  return element(
    'bdi',
    buyer.replace(HIDDEN, (char) => `\\u{${char.codePointAt(0).toString(16)}}`),
  );
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
    // By piece: the names of its buyers.
    this.buyers = new Map();
    this.grid.replaceChildren(...Array.from({ length: stock }, () => element('i')));
    this.list.replaceChildren();
  }

  add(purchase, colour) {
    const { outcome, piece, at, buyer } = purchase;
    if (outcome !== 'sold') return this.log(purchase, colour, element('span', NOT_SOLD[outcome], { class: 'none' }));
    const buyers = [...(this.buyers.get(piece) ?? []), buyer];
    this.buyers.set(piece, buyers);
    // Replies of several instances may overtake each other. The lowest piece shows what is left.
    this.sold += 1;
    this.lowest = Math.min(this.lowest, piece - 1);
    this.points.push({ at, oversold: Math.max(0, this.sold + this.lowest - this.stock) });
    this.paint(this.grid.children[this.stock - piece], colour, buyers.length);
    this.log(purchase, colour, pieceText(piece, buyers));
  }

  paint(square, colour, times) {
    if (square === undefined) return;
    square.dataset.instance ??= colour;
    if (times === 1) return;
    square.dataset.twice = '';
    square.textContent = times;
  }

  log({ instance, buyer }, colour, what) {
    const line = element('li');
    const dot = element('i', '', { 'data-instance': colour });
    line.append(dot, element('span', `:${instance}`, { class: 'none' }), nameOf(buyer), what);
    this.list.prepend(line);
    while (this.list.children.length > LATEST) this.list.lastElementChild.remove();
  }

  show(figures) {
    for (const [name, value] of Object.entries(this.values)) setText(value, String(figures[name]));
    this.root.classList.toggle('isBad', figures.oversold > 0);
  }

  plot(elapsedMs, endMs, most) {
    const x = (at) => ((at / elapsedMs) * PLOT.width).toFixed(1);
    const y = (oversold) => (PLOT.height - 2 - (oversold / most) * (PLOT.height - 6)).toFixed(1);
    const points = [...this.points, { ...this.last, at: endMs }];
    this.line.setAttribute('points', points.map(({ at, oversold }) => `${x(at)},${y(oversold)}`).join(' '));
  }

  get last() {
    return this.points.at(-1);
  }
}

/** Returns which piece was sold, and which buyer had got it before. */
function pieceText(piece, buyers) {
  if (buyers.length === 1) return element('span', `piece ${piece}`);
  const text = element('b', `piece ${piece}, which `);
  text.append(nameOf(buyers[0]), ' has, too');
  return text;
}

const sides = Object.fromEntries(SIDES.map((name) => [name, new Side(name)]));
let known = { id: 0, next: 0 };
let hasLooked = false;
let announcedAt = -Infinity;

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
  const lasts = Object.values(sides).map(({ last }) => last);
  const endMs = Math.max(...lasts.map(({ at }) => at));
  const most = Math.max(PLOT.most, ...lasts.map(({ oversold }) => oversold));
  for (const [name, side] of Object.entries(sides)) {
    side.show(state.sides[name]);
    side.plot(Math.max(PLOT.ms, endMs), endMs, most);
  }
  if (document.activeElement !== rate) showRate(sale.perSecond);
  showOver(isOver);
  announce(state);
}

/** Shows that Redis no longer has a sale, for example after it was started again. */
function showNone() {
  known = { id: 0, next: 0 };
  showOver(true);
}

function showOver(isOver) {
  document.body.dataset.over = isOver;
  setText(phase, isOver ? 'The sale is over.' : 'Selling …');
}

/** Screen readers get the totals now and then, and at the end. */
function announce({ sides: { locked, unlocked }, isOver }) {
  if (!isOver && performance.now() < announcedAt + ANNOUNCE_MS) return;
  announcedAt = performance.now();
  const side = ({ sold, oversold }) => `${sold} sold, ${oversold} oversold`;
  const end = isOver ? 'The sale is over. ' : '';
  setText(totals, `${end}Without a lock ${side(unlocked)}. With a lock ${side(locked)}.`);
}

function showRate(perSecond) {
  rate.value = perSecond;
  rateValue.textContent = perSecond;
}

async function request(path, init = {}) {
  const response = await fetch(path, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) }).catch(() => {
    throw new Error('This instance does not reply.');
  });
  if (response.ok) return response;
  const { message } = await response.json().catch(() => ({}));
  throw new Error(typeof message === 'string' ? message : `This instance replies ${response.status}.`);
}

function send(method, path, body) {
  return request(path, { method, body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } });
}

const problems = { look: '', action: '' };

/** Runs a look or an action, and shows its error until the next one of its kind. */
async function attempt(kind, work) {
  try {
    await work();
    problems[kind] = '';
  } catch (error) {
    problems[kind] = error.message;
  }
  const problem = problems.action || problems.look;
  trouble.hidden = problem === '';
  setText(trouble, problem);
}

/** Starts a sale after the one that this page knows. Nothing happens if another viewer has started one since. */
function start(after) {
  return send('POST', 'sale', { perSecond: Number(rate.value), after });
}

async function look() {
  const state = await (await request(`sale?sale=${known.id}&after=${known.next}`)).json();
  // A page that is opened while no sale runs starts one.
  if (!hasLooked && state.isOver) await start(state.sale?.id ?? 0);
  else if (state.sale !== null) show(state);
  else showNone();
  hasLooked = true;
}

rate.addEventListener('input', () => {
  rateValue.textContent = rate.value;
});
rate.addEventListener('change', () => {
  void attempt('action', () => send('PATCH', 'sale', { perSecond: Number(rate.value) }));
});
find('#again').addEventListener('click', () => {
  void attempt('action', () => start(known.id));
});
find('#buy').addEventListener('submit', (event) => {
  event.preventDefault();
  void attempt('action', () => send('POST', 'sale/buyers', { name: find('#name').value }));
});

for (;;) {
  if (!document.hidden) await attempt('look', look);
  await new Promise((resolve) => setTimeout(resolve, POLL_MS));
}
