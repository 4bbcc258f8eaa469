import { describe, expect, it } from '@jest/globals';
import { readArguments } from '../../lib/cli/arguments.js';
import { EXIT } from '../../lib/cli/exit-codes.js';
import { LOCK_COLUMNS } from '../../lib/cli/lock-view.js';
import { page, sectionOf } from '../support/pages.js';

const PATH = 'docs/cli.md';

function helpOf(...args: string[]): string {
  const invocation = readArguments([...args, '--help'], '1.2.3');
  return 'text' in invocation ? invocation.text : '';
}

const COMMANDS = ['list', 'inspect', 'watch', 'release'];
const optionsIn = (text: string): Set<string> =>
  new Set([...text.matchAll(/(?<![\w-])--[a-z][a-z-]*/g)].map(([name]) => name));

describe('the page on the command line', () => {
  it('names every option that there is, and no other', () => {
    const written = page(PATH).text.replaceAll(/<!-- output:\w+:start -->[^]*?<!-- output:\w+:end -->/g, '');
    const documented = optionsIn(written);
    const inHelp = optionsIn(
      ['', ...COMMANDS].map((command) => helpOf(...command.split(' ').filter(Boolean))).join('\n'),
    );
    // Nobody needs an explanation of this one.
    inHelp.delete('--version');
    expect([...documented].toSorted()).toEqual([...inHelp].toSorted());
  });

  it.each(COMMANDS)('has a section on %s', (command) => {
    expect(sectionOf(PATH, `\`${command}\``)).toContain(`npx nestjs-redis-lock ${command}`);
  });

  it('names every exit code', () => {
    const [, codes = ''] = /^Exit codes:\n([^]*?)```/m.exec(page(PATH).text) ?? [];
    const rows = [...codes.matchAll(/^ {2}(\d) /gm)].map(([, code]) => Number(code));
    expect(rows).toEqual(Object.values(EXIT));
  });

  it('names every column, in order', () => {
    const section = sectionOf(PATH, '`list`');
    const titles = LOCK_COLUMNS.map(({ title }) => title);
    const rows = [...section.matchAll(/^\| ([A-Z ]+?) +\|/gm)].map(([, title]) => title);
    expect(rows).toEqual(titles);
  });

  it('names every variable of the help', () => {
    const variables = (text: string) => new Set([...text.matchAll(/\bREDIS_[A-Z_]+\b/g)].map(([name]) => name));
    expect(variables(page(PATH).text)).toEqual(variables(helpOf()));
  });
});
