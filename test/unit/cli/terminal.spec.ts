import { describe, expect, it } from '@jest/globals';
import { Progress, Screen } from '../../../lib/cli/terminal.js';
import { FakeOutput, FakeTerminal } from '../../support/fake-terminal.js';

const ENTER = '\u001b[?1049h\u001b[?25l';
const LEAVE = '\u001b[?25h\u001b[?1049l';

describe('the screen', () => {
  it('writes over what it has shown, and restores the terminal once', () => {
    const terminal = new FakeTerminal(true);
    const screen = new Screen(terminal.stdout, terminal);
    screen.draw(['one', 'two']);
    screen.close();
    screen.close();
    const clear = '\u001b[K';
    expect(terminal.stdout.text).toBe(`${ENTER}\u001b[Hone${clear}\r\ntwo${clear}\u001b[J${LEAVE}`);
    expect(terminal.listeners).toBe(0);
  });

  it('restores the terminal if the process ends otherwise', () => {
    const terminal = new FakeTerminal(true);
    const screen = new Screen(terminal.stdout, terminal);
    terminal.exit();
    expect(terminal.stdout.text).toBe(ENTER + LEAVE);
    screen.close();
    expect(terminal.stdout.text).toBe(ENTER + LEAVE);
  });

  it('leaves out the lines that do not fit', () => {
    const terminal = new FakeTerminal(true);
    terminal.stdout.rows = 2;
    new Screen(terminal.stdout, terminal).draw(['one', 'two', 'three']);
    expect(terminal.stdout.text).toContain('two');
    expect(terminal.stdout.text).not.toContain('three');
  });
});

describe('the progress', () => {
  it('is one line that disappears', () => {
    const output = new FakeOutput(true);
    const progress = new Progress(output);
    progress.show('10 locks');
    progress.clear();
    progress.clear();
    expect(output.text).toBe('\r10 locks\u001b[K\r\u001b[K');
  });

  it('is not shown in a file or a pipe', () => {
    const output = new FakeOutput(false);
    const progress = new Progress(output);
    progress.show('10 locks');
    progress.clear();
    expect(output.text).toBe('');
  });
});
