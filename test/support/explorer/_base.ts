import { explore } from './explore.js';
import { RULES } from './rules.js';
import { KeyQueue } from '../../../lib/engine/key-queue.js';
import { Waiter } from '../../../lib/engine/waiter.js';
const rule = RULES.find((r) => r.off.includes(process.argv[2]!))!;
for (let s = 1; s <= 10; s++) { const r = await explore(s, rule.under); if (r.problems.length) console.log(s, r.problems); }
const P = (C: any, m: string, f: (this: any, r: any, ...a: any[]) => string) => { const o = C.prototype[m]; C.prototype[m] = function (...a: any[]) { const r = o.apply(this, a); console.log(f.call(this, r, ...a)); return r; }; };
if (process.argv[3]) {
P(KeyQueue, 'givesUpAt', function (r, w, now) { return `gives ${now.toFixed(0)} call ${w.target.call} entered ${w.enteredAt.toFixed(0)} wait ${w.options.waitMs} at ${r} last ${this.lastReply.kind} state ${this.attempt?.state} und ${this.attempt?.undecidedSince} leases ${this.leases.length} dl ${this.leases[0]?.deadline}`; });
P(Waiter, 'refuse', function () { return `refuse ${this.target.call}`; });
P(Waiter, 'admit', function () { return `admit ${this.target.call}`; });
console.log(await explore(Number(process.argv[3]), rule.under)); }
process.exit(0);
