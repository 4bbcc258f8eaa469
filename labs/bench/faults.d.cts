/** A fault is a line that says what is wrong. */
type Faults = string[];

export function faultsOfBench(scenarios: readonly object[]): Faults;
