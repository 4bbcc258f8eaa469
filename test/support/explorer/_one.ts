import { explore } from './explore.js';
import { Referee } from './referee.js';
const o = Referee.prototype.report;
Referee.prototype.report = function (v: string) { console.log(this['now'](), v, new Error().stack?.split('\n').slice(2, 14).join('\n')); o.call(this, v); };
console.log(await explore(Number(process.argv[2]), JSON.parse(process.argv[3] ?? '{}')));
process.exit(0);
