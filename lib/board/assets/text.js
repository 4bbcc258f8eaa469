/**
 * Characters that cannot be seen, or that change how others are shown: control and format characters, among them those
 * that turn the direction of text, white space other than a blank, halves of characters, and stacks of marks.
 */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{DI}\u2800]|[^\S ]|(?<=\p{M}\p{M})\p{M}/gu;
const CLIPPED = 160;

export const byId = (id) => document.getElementById(id);

/** Creates an element with a class and children. A string becomes text, never markup. */
export function el(name, className, ...children) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

const shownTexts = new WeakMap();

/** Sets the text of an element if it is another one, so that nothing moves and nothing is read aloud again. */
export function setText(element, text) {
  if (shownTexts.get(element) === text) return;
  shownTexts.set(element, text);
  element.textContent = visibleText(text);
}

/** Shows an element with a text, or hides it without one. */
export function setNotice(element, text) {
  element.hidden = text === undefined;
  setText(element, text ?? '');
}

/** Returns the nodes that show any text: what is hidden or misleading in it is written as its number. */
export function visible(text) {
  const nodes = [];
  let from = 0;
  for (const { 0: char, index } of text.matchAll(HIDDEN)) {
    nodes.push(text.slice(from, index), el('span', 'escaped', `\\u{${char.codePointAt(0).toString(16)}}`));
    from = index + char.length;
  }
  nodes.push(text.slice(from));
  return nodes.filter((node) => node !== '');
}

/** Returns the same as a string, for texts that are read aloud. */
export function visibleText(text) {
  return text.replace(HIDDEN, (char) => `\\u{${char.codePointAt(0).toString(16)}}`);
}

/** Returns an element that shows a resource with its family. A long one opens at a click. */
export function resourceElement(resource, family) {
  if (resource.length <= CLIPPED) {
    const rest = resource.slice(family.length);
    return el('div', 'resource', el('span', 'family', ...visible(family)), ...visible(rest));
  }
  const start = resource.slice(0, CLIPPED).replace(/[\ud800-\udbff]$/, '');
  const summary = el('summary', '', ...visible(start), `… (${count(resource.length, 'character')})`);
  return el('details', 'resource', summary, ...visible(resource));
}

/** Returns `1 lock`, `2 locks`, `10,000 locks`. */
export function count(number, noun) {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;
}

/** Returns a duration: `310 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`. */
export function duration(ms) {
  const milliseconds = Math.max(0, ms);
  if (milliseconds < 999.5)
    return `${milliseconds < 10 ? Number(milliseconds.toFixed(1)) : Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

/** Returns the same without parts of a second: `9 s`, `3 min 20 s`. */
export function wholeSeconds(ms) {
  const seconds = Math.round(ms / 1_000);
  return seconds < 60 ? `${seconds} s` : duration(seconds * 1_000);
}

/** Has a screen reader say a text once it is idle. Texts that follow each other are all said. */
export function announce(text) {
  const lines = byId('announcements');
  lines.append(el('p', '', visibleText(text)));
  if (lines.children.length > 5) lines.firstElementChild.remove();
}
