import { withoutForgery } from '../format-value.js';
import type { LockOrderCycle, LockOrderEdge, LockOrderFamily } from './order-graph.js';

/** The module instance whose name is not shown. */
const UNNAMED = 'default';

const LONGEST_NAME = 64;

/** Returns a family as texts show it: `goods`, or `stock/goods` for the module instance `stock`. */
function nameOf({ instance, family }: LockOrderFamily): string {
  const name = instance === UNNAMED ? family : `${instance}/${family}`;
  const shown = name.length <= LONGEST_NAME ? name : `${name.slice(0, LONGEST_NAME)}…`;
  return withoutForgery(shown);
}

/** Returns `goods → order in Shop.buy, order → goods in Refunds.run`. */
export function describeCycle(cycle: LockOrderCycle): string {
  return cycle
    .map(({ held, taken, ids, places }) => {
      const order = ids === undefined ? '' : ` with ${ids} ids`;
      return `${nameOf(held)} → ${nameOf(taken)}${order} in ${places.join(' and ')}`;
    })
    .join(', ');
}

/** Returns the edges as the text of a Mermaid flowchart. Those of cycles are red. */
export function toMermaid(edges: readonly LockOrderEdge[], cycles: readonly LockOrderCycle[]): string {
  const { nodes, idOf } = nodesOf(edges);
  const inCycle = new Set(cycles.flat());
  const lines = ['flowchart LR', ...nodes.map((family) => `  ${idOf(family)}["${forMermaid(nameOf(family))}"]`)];
  for (const { held, taken, places } of edges) {
    lines.push(`  ${idOf(held)} -->|"${places.map(forMermaid).join('<br>')}"| ${idOf(taken)}`);
  }
  const red = edges.flatMap((edge, at) => (inCycle.has(edge) ? [at] : []));
  if (red.length > 0) lines.push(`  linkStyle ${red.join(',')} stroke:#d00,color:#d00`);
  return `${lines.join('\n')}\n`;
}

function nodesOf(edges: readonly LockOrderEdge[]) {
  const nodes = [...new Set(edges.flatMap(({ held, taken }) => [held, taken]))];
  const ids = new Map(nodes.map((family, at) => [family, `f${at}`]));
  return { nodes, idOf: (family: LockOrderFamily): string => ids.get(family) as string };
}

// A family may come from a client, and a page may draw the picture.
function forMermaid(text: string): string {
  return text.replace(/[#"<>&`]/g, (character) => `#${character.charCodeAt(0)};`);
}
