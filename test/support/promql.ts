// A parser of the part of PromQL that the dashboard and the alert rules use. It rejects everything else. So a query
// that Prometheus would refuse fails a test, and so does one that can never have a result.

/** A condition in braces, `outcome="granted"`. */
export interface Matcher {
  readonly label: string;
  readonly operator: string;
  /** Without its quotes. */
  readonly value: string;
}

/** A query, as far as tests need it. */
export interface Query {
  readonly metrics: readonly string[];
  readonly matchers: readonly Matcher[];
  /** The labels of the result. */
  readonly labels: ReadonlySet<string>;
}

/** Returns the labels of a metric. Undefined if there is no such metric. */
export type LabelsOf = (metric: string) => ReadonlySet<string> | undefined;

type Kind = 'scalar' | 'vector' | 'range';

interface Value {
  readonly kind: Kind;
  readonly labels: ReadonlySet<string>;
}

const NONE: ReadonlySet<string> = new Set();
const TOKEN = /"(?:[^"\\]|\\.)*"|\d+(?:ms|[smhdwy])\b|\d+(?:\.\d+)?|[A-Za-z_:][\w:]*|[=!]~|[!=<>]=|[-+*/<>=(){}[\],]/y;
const DURATION = /^\d+(?:ms|[smhdwy])$/;
/** From the weakest to the strongest. Those of one level are left-associative. */
const LEVELS = [['or'], ['and', 'unless'], ['==', '!=', '>', '<', '>=', '<='], ['+', '-'], ['*', '/']];
const MATCHING = ['=', '!=', '=~', '!~'];
const AGGREGATIONS = ['sum', 'min', 'max', 'avg', 'count'];
const FUNCTIONS: Readonly<Record<string, readonly Kind[] | undefined>> = {
  rate: ['range'],
  increase: ['range'],
  deriv: ['range'],
  ceil: ['vector'],
  vector: ['scalar'],
  histogram_quantile: ['scalar', 'vector'],
};

/**
 * Parses a query and follows its labels.
 *
 * @throws Error for unknown syntax, functions, metrics and labels, and for two sides whose labels can never be equal.
 */
export function parseQuery(text: string, labelsOf: LabelsOf): Query {
  return new Parser(text, labelsOf).parse();
}

class Parser {
  private readonly tokens: readonly string[];
  private readonly metrics: string[] = [];
  private readonly matchers: Matcher[] = [];
  private at = 0;

  constructor(
    private readonly text: string,
    private readonly labelsOf: LabelsOf,
  ) {
    this.tokens = this.tokenize();
  }

  parse(): Query {
    const { kind, labels } = this.binary(0);
    if (this.next !== undefined) throw this.error(`unexpected ${this.next}`);
    if (kind === 'range') throw this.error('a range is not a result');
    return { metrics: this.metrics, matchers: this.matchers, labels };
  }

  private tokenize(): string[] {
    const tokens: string[] = [];
    for (let at = 0; at < this.text.length;) {
      const [space] = /^\s*/.exec(this.text.slice(at)) as RegExpExecArray;
      at += space.length;
      if (at === this.text.length) break;
      TOKEN.lastIndex = at;
      const [token] = TOKEN.exec(this.text) ?? [];
      if (token === undefined) throw this.error(`unexpected ${this.text.slice(at, at + 10)}`);
      tokens.push(token);
      at += token.length;
    }
    return tokens;
  }

  private get next(): string | undefined {
    return this.tokens[this.at];
  }

  private take(): string {
    const token = this.next;
    if (token === undefined) throw this.error('the query ends too early');
    this.at += 1;
    return token;
  }

  private expect(token: string): void {
    const found = this.take();
    if (found !== token) throw this.error(`${found} in place of ${token}`);
  }

  private binary(level: number): Value {
    if (level === LEVELS.length) return this.single();
    let left = this.binary(level + 1);
    while (this.next !== undefined && LEVELS[level].includes(this.next)) {
      const operator = this.take();
      left = this.joined(left, operator, this.binary(level + 1));
    }
    return left;
  }

  private joined(left: Value, operator: string, right: Value): Value {
    if (left.kind === 'range' || right.kind === 'range') throw this.error(`${operator} beside a range`);
    const isOfSets = ['or', 'and', 'unless'].includes(operator);
    if (left.kind === 'scalar' || right.kind === 'scalar') {
      if (isOfSets) throw this.error(`${operator} beside a number`);
      return left.kind === 'scalar' ? right : left;
    }
    if (operator === 'or') return { kind: 'vector', labels: new Set([...left.labels, ...right.labels]) };
    const [of, to] = [left, right].map(({ labels }) => [...labels].toSorted(byText).join(', '));
    if (of !== to) throw this.error(`${operator} between {${of}} and {${to}}`);
    return left;
  }

  private single(): Value {
    const token = this.take();
    if (/^\d/.test(token) && !DURATION.test(token)) return { kind: 'scalar', labels: NONE };
    if (token === '(') {
      const inside = this.binary(0);
      this.expect(')');
      return inside;
    }
    if (!/^[A-Za-z_:]/.test(token)) throw this.error(`unexpected ${token}`);
    if (AGGREGATIONS.includes(token)) return this.aggregation();
    return this.next === '(' ? this.call(token) : this.selector(token);
  }

  /** Only with the labels before the parentheses. */
  private aggregation(): Value {
    const by = this.next === 'by' ? this.labelList() : [];
    this.expect('(');
    const { kind, labels } = this.binary(0);
    this.expect(')');
    if (kind !== 'vector') throw this.error('an aggregation of no vector');
    for (const label of by) if (!labels.has(label)) throw this.error(`there is no label ${label} to aggregate by`);
    return { kind, labels: new Set(by) };
  }

  private labelList(): string[] {
    const labels: string[] = [];
    this.expect('by');
    this.expect('(');
    do labels.push(this.take());
    while (this.accept(','));
    this.expect(')');
    return labels;
  }

  private accept(token: string): boolean {
    if (this.next !== token) return false;
    this.at += 1;
    return true;
  }

  private call(name: string): Value {
    const kinds = FUNCTIONS[name];
    if (kinds === undefined) throw this.error(`unknown function ${name}`);
    this.expect('(');
    const args = kinds.map((kind, i) => {
      if (i > 0) this.expect(',');
      const arg = this.binary(0);
      if (arg.kind !== kind) throw this.error(`${name} of a ${arg.kind} in place of a ${kind}`);
      return arg;
    });
    this.expect(')');
    const labels = new Set(args.at(-1)?.labels);
    if (name === 'histogram_quantile' && !labels.delete('le')) throw this.error(`${name} without le`);
    return { kind: 'vector', labels };
  }

  private selector(metric: string): Value {
    const labels = this.labelsOf(metric);
    if (labels === undefined) throw this.error(`there is no metric ${metric}`);
    this.metrics.push(metric);
    if (this.accept('{')) {
      do this.matchers.push(this.matcher(metric, labels));
      while (this.accept(','));
      this.expect('}');
    }
    if (!this.accept('[')) return { kind: 'vector', labels };
    const duration = this.take();
    if (!DURATION.test(duration)) throw this.error(`${duration} is not a duration`);
    this.expect(']');
    return { kind: 'range', labels };
  }

  private matcher(metric: string, labels: ReadonlySet<string>): Matcher {
    const [label, operator, quoted] = [this.take(), this.take(), this.take()];
    if (!labels.has(label)) throw this.error(`${metric} has no label ${label}`);
    if (!MATCHING.includes(operator)) throw this.error(`${operator} is not a matcher`);
    if (!quoted.startsWith('"')) throw this.error(`${quoted} is not a string`);
    return { label, operator, value: JSON.parse(quoted) as string };
  }

  private error(what: string): Error {
    return new Error(`${what}, in: ${this.text}`);
  }
}

function byText(a: string, b: string): number {
  return a.localeCompare(b);
}
