import { explore } from './explore.js';
import { catchOff, RULES } from './rules.js';
const only = process.argv[2] ?? '';
for (const rule of RULES) {
  if (!rule.off.includes(only)) continue;
  const t = Date.now();
  const caught = await catchOff(rule, explore);
  // the unbroken engine under the same conditions
  let bad = 0;
  for (let s = 1; s <= 10; s++) bad += (await explore(s, rule.under)).problems.length;
  console.log(caught.isCaught ? 'ok ' : 'NOT', rule.off, JSON.stringify(caught), Date.now() - t, bad ? `BAD BASE ${bad}` : '');
  if (process.argv[3] || !caught.isCaught) {
    const on = await explore(1, rule.under); const o = rule.switchOff(); const off = await explore(1, rule.under); o();
    console.log(JSON.stringify(on), JSON.stringify(off));
  }
}
process.exit(0);
