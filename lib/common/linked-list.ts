/** An item of a {@link LinkedList}. It stores its neighbours itself. */
export interface Linked<Item> {
  previous: Item | undefined;
  next: Item | undefined;
}

/** Items in the order in which they were added. Each may be removed at any time, in constant time. */
// Not a `Set`, because finding its first element is O(n) after many removals: 2.5 s for 100,000 waiters.
export class LinkedList<Item extends Linked<Item>> {
  head: Item | undefined = undefined;
  length = 0;
  private tail: Item | undefined = undefined;

  /** Adds an item that is in no list. */
  push(item: Item): void {
    this.length += 1;
    item.previous = this.tail;
    if (this.tail === undefined) this.head = item;
    else this.tail.next = item;
    this.tail = item;
  }

  /** Returns whether an item is in the list. The item must be in no other list. */
  has(item: Item): boolean {
    return item.previous !== undefined || this.head === item;
  }

  /** Returns false if the item is not in the list. */
  remove(item: Item): boolean {
    if (!this.has(item)) return false;
    this.length -= 1;
    if (item.previous === undefined) this.head = item.next;
    else item.previous.next = item.next;
    if (item.next === undefined) this.tail = item.previous;
    else item.next.previous = item.previous;
    item.previous = item.next = undefined;
    return true;
  }
}
