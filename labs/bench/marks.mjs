// The generated parts of pages.

/** Returns the page with another text between the marks of a part. */
export function replaced(page, name, part) {
  const [start, end] = [`<!-- ${name}:start -->`, `<!-- ${name}:end -->`];
  const [from, to] = [page.indexOf(start), page.indexOf(end)];
  if (from === -1 || to < from) throw new Error(`The page has no ${start} … ${end}.`);
  return `${page.slice(0, from)}${start}\n\n${part}\n\n${page.slice(to)}`;
}
