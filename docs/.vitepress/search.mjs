/** Headings of the API reference that stand below every name. They are not results of their own. */
const PART =
  /<h([2-6])[^>]*>(?:Accessors|Call Signature|Constructors?|Default|Extended by|Extends|Get Signature|Implementation of|Implements|Index Signature|Inherited from|Methods|Overrides|Parameters|Properties|Returns|Set Signature|Throws|Type Parameters)\b[^]*?<\/h\1>/g;

/** Renders a page as the search reads it. Empty for pages that leave it out by `search: false`. */
export function renderForSearch(source, env, md) {
  const html = md.render(source, env);
  if (env.frontmatter?.search === false) return '';
  return env.relativePath.startsWith('api/') ? html.replaceAll(PART, '') : html;
}
