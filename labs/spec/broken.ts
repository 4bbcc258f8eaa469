// Breaks a trace in one place, so that the specification has to reject it.
import { nameOf, type Step, type Trace } from './traces.js';

/** Returns where scripts run. */
function runsOf(trace: Trace): readonly number[] {
  return trace.flatMap((step, i) => (nameOf(step) === 'runs' ? [i] : []));
}

/** The numbers of a step `runs` that are the answer and the token. */
const [ANSWER, TOKEN] = [4, 5];
const GRANTED = 0;
const HELD = 1;

/** Each returns a broken trace, or undefined if the trace has nothing to break in this way. */
export const BREAKS: Readonly<Record<string, (trace: Trace) => Trace | undefined>> = {
  'a reply is changed': (trace) => {
    const places = runsOf(trace);
    if (places.length === 0) return undefined;
    const i = places[Math.floor(places.length / 2)];
    return trace.with(i, trace[i].with(ANSWER, trace[i][ANSWER] === HELD ? GRANTED : HELD));
  },
  'a script does not run': (trace) => {
    const isRead = (id: number): boolean => trace.some((step) => nameOf(step) === 'reads' && step[1] === id);
    return without(trace, (step) => nameOf(step) === 'runs' && isRead(step[1]));
  },
  'a request is not sent': (trace) => without(trace, (step) => ['asks', 'extends', 'releases'].includes(nameOf(step))),
  'a reply is not read': (trace) => {
    return without(trace, (step, next) => nameOf(step) === 'reads' && next !== undefined && nameOf(next) === 'works');
  },
  'two scripts run in the other order': (trace) => {
    const places = runsOf(trace);
    const n = places.findIndex((at, k) => k > 0 && trace[at][1] !== trace[places[k - 1]][1]);
    if (n === -1) return undefined;
    const [one, other] = [places[n - 1], places[n]];
    return trace.with(one, trace[other]).with(other, trace[one]);
  },
  'a token is repeated': (trace) => {
    const [one, other] = runsOf(trace).filter((at) => trace[at][ANSWER] === GRANTED);
    return other === undefined ? undefined : trace.with(other, trace[other].with(TOKEN, trace[one][TOKEN]));
  },
};

/** Removes one step that is selected, in the middle of the trace. */
function without(trace: Trace, selects: (step: Step, next: Step | undefined) => boolean): Trace | undefined {
  const places = trace.flatMap((step, i) => (selects(step, trace.at(i + 1)) ? [i] : []));
  return places.length === 0 ? undefined : trace.toSpliced(places[Math.floor(places.length / 2)], 1);
}
