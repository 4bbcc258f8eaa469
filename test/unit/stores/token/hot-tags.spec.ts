import { beforeEach, describe, expect, it } from '@jest/globals';
import { HOT_GRANTS, HotTags } from '../../../../lib/stores/token/hot-tags.js';

const SECOND = 1_000_000;

let lines: string[];
let tags: HotTags;
let now: number;

beforeEach(() => {
  lines = [];
  tags = new HotTags((line) => lines.push(line));
  now = 1_795_392_000 * SECOND;
});

/** Counts as many grants within `seconds` as make a family hot. */
function grant(tag: string, keyOf: (i: number) => string, seconds = 9): void {
  for (let i = 0; i < HOT_GRANTS; i += 1) tags.onGranted(tag, keyOf(i), now + (i * seconds * SECOND) / HOT_GRANTS);
  now += seconds * SECOND;
}

describe('a family in a cluster', () => {
  it('is reported once if it is hot, with what to change', () => {
    grant('lock_goods', (i) => `{lock_goods}:${i}`);
    expect(lines).toEqual([
      'One node of the cluster serves all locks with the hash tag {lock_goods}, and their fencing tokens: this ' +
        'instance alone was granted 10000 of them within 10 s. The option ' +
        "hashTag: 'resource' spreads them over all nodes. It changes the keys, so all instances have to change at once.",
    ]);
    now += 60 * SECOND;
    grant('lock_goods', (i) => `{lock_goods}:${i}`);
    expect(lines).toHaveLength(1);
    grant('lock_order', (i) => `{lock_order}:${i}`);
    expect(lines).toHaveLength(2);
  });

  it('is not reported if its grants take longer', () => {
    grant('lock_goods', (i) => `{lock_goods}:${i}`, 10.1);
    grant('lock_goods', (i) => `{lock_goods}:${i}`, 600);
    expect(lines).toEqual([]);
  });

  it('is not reported if one of its locks has most of the grants', () => {
    grant('lock_goods', (i) => `{lock_goods}:${i % 4 === 0 ? i : 'busy'}`);
    grant('lock_report', () => '{lock_report}');
    expect(lines).toEqual([]);
  });

  it('is reported if two of its locks have half of the grants each', () => {
    grant('lock_goods', (i) => `{lock_goods}:${i % 2}`);
    expect(lines).toHaveLength(1);
  });

  it('is not reported if the braces are those of the resource', () => {
    grant('300', (i) => `lock_goods:{300}:${i}`);
    expect(lines).toEqual([]);
  });

  it('is one of 10 that are reported', () => {
    for (let family = 0; family < 12; family += 1) grant(`lock_${family}`, (i) => `{lock_${family}}:${i}`);
    expect(lines).toHaveLength(10);
  });

  it('is forgotten among a thousand others, so that memory is bounded', () => {
    const { loads } = tags as unknown as { readonly loads: Map<string, unknown> };
    for (let i = 0; i < 100_000; i += 1) tags.onGranted(`tag ${i}`, `{tag ${i}}`, now);
    expect(loads.size).toBeLessThanOrEqual(1_000);
  });
});
