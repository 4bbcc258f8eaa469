/** Returns the anchor of a heading as GitHub spells it, so that a link works in both places. */
export function slugOf(heading) {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

/** A plugin of markdown-it. Takes `{#anchor}` from the end of a heading, as the API reference has it. */
export function headingAnchors(md) {
  md.core.ruler.before('anchor', 'heading_anchors', ({ tokens }) => {
    for (const [i, token] of tokens.entries()) {
      const last = token.type === 'heading_open' ? tokens[i + 1].children.at(-1) : undefined;
      const [mark, anchor] = / *\{#([^}]+)\}$/.exec(last?.content ?? '') ?? [];
      if (anchor === undefined) continue;
      last.content = last.content.slice(0, -mark.length);
      token.attrSet('id', anchor);
    }
  });
}
