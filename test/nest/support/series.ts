/** The labels of exclusive locks on `goods:…` of the module instance without a name. */
export const GOODS_SERIES = 'name="default",family="goods",mode="exclusive"';

/** Returns the series of a scrape by name and labels, without comments. */
export function seriesOf(text: string): Record<string, number> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return Object.fromEntries(lines.map((line) => [line.replace(/ \S+$/, ''), Number(/\S+$/.exec(line)?.[0])]));
}
