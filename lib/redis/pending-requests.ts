/** Owners whose ask was not sent yet, and may never be. */
export class PendingRequests {
  private readonly wanted = new Map<string, boolean>();

  add(owner: string): void {
    this.wanted.set(owner, true);
  }

  /** Whether the owner's ask was not sent, and will not be: of several keys each is given back, and all are told so. */
  cancel(owner: string): boolean {
    if (!this.wanted.has(owner)) return false;
    this.wanted.set(owner, false);
    return true;
  }

  /** It could be sent now: whether it is wanted still. */
  take(owner: string): boolean {
    const wanted = this.wanted.get(owner) === true;
    this.wanted.delete(owner);
    return wanted;
  }
}
