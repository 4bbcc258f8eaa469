/** The family that stands for all families above the limit. */
const OTHER = 'other';

/** How many families a metric has by default. */
export const DEFAULT_MAX_FAMILIES = 100;

/**
 * Bounds how many families a metric has. A caller may take the first segment of a resource from its client, and each
 * family is a series that is never forgotten.
 */
export class FamilyLimit {
  private readonly known = new Set<string>();

  constructor(private readonly most: number = DEFAULT_MAX_FAMILIES) {}

  /** Returns the family, or `other` if the limit was reached before it. */
  of(family: string): string {
    if (this.known.has(family)) return family;
    if (this.known.size >= this.most) return OTHER;
    this.known.add(family);
    return family;
  }
}
