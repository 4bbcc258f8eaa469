/** A fault is a line that says what is wrong. */
type Faults = string[];

export function faultsOfBench(scenarios: readonly object[], versions: readonly object[]): Faults;
export function faultsOfStart(outcomes: readonly object[]): Faults;
export function faultsOfTimeline(results: object): Faults;
