const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Returns a time as people read it: `850 ms`, `4.2 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`. */
export function formatDuration(ms: number): string {
  if (ms === Infinity) return 'unlimited';
  const rest = Math.max(0, Math.round(ms));
  if (rest < SECOND) return `${rest} ms`;
  // 59.96 s is 1 min.
  if (rest < MINUTE - 50) return `${(rest / SECOND).toFixed(1)} s`;
  if (rest < HOUR - SECOND / 2) return both(Math.round(rest / SECOND), 60, 'min', 's');
  if (rest < DAY - MINUTE / 2) return both(Math.round(rest / MINUTE), 60, 'h', 'min');
  return both(Math.round(rest / HOUR), 24, 'd', 'h');
}

/** Formats a number of small units as large and small ones. */
function both(small: number, perLarge: number, largeUnit: string, smallUnit: string): string {
  return `${Math.floor(small / perLarge)} ${largeUnit} ${small % perLarge} ${smallUnit}`;
}
