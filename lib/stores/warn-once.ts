/** Returns a function that passes its first message to `warn` and ignores later ones. */
export function warnOnce(warn: (message: string) => void): (message: string) => void {
  let warned = false;
  return (message) => {
    if (!warned) warn(message);
    warned = true;
  };
}
