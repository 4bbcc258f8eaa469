import { describe, expect, it } from '@jest/globals';
import { Progress, Screen, writeTo } from '../../../lib/cli/terminal.js';
import { outcome } from '../../support/async.js';
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
    expect(terminal.stdout.text).toBe(`${ENTER}\u001b[H${clear}one\r\n${clear}two\r\n\u001b[J${LEAVE}`);
    expect(terminal.listeners).toBe(0);
  });

  it('clears nothing behind a line in the last row', () => {
    const terminal = new FakeTerminal(true);
    terminal.stdout.rows = 2;
    new Screen(terminal.stdout, terminal).draw(['one', 'two']);
    expect(terminal.stdout.text.endsWith('\u001b[Ktwo')).toBe(true);
  });

  it('leaves the terminal while the process is suspended', () => {
    const terminal = new FakeTerminal(true);
    const screen = new Screen(terminal.stdout, terminal);
    terminal.suspend();
    expect(terminal.stdout.text).toBe(ENTER + LEAVE);
    terminal.resume();
    expect(terminal.stdout.text).toBe(ENTER + LEAVE + ENTER);
    screen.close();
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

describe('writeTo()', () => {
  it('waits until a full stream takes more', async () => {
    let onDrain: (() => void) | undefined;
    const full = { write: () => false, once: (_event: 'drain', listener: () => void) => (onDrain = listener) };
    const written = outcome(writeTo(full, 'one').then(() => true));
    await new Promise((resolve) => setImmediate(resolve));
    expect(written).toEqual({});
    onDrain?.();
    await new Promise((resolve) => setImmediate(resolve));
    expect(written).toEqual({ value: true });
  });

  it('goes on at once if the stream takes more', async () => {
    const output = new FakeOutput(false);
    await writeTo(output, 'one');
    expect(output.text).toBe('one');
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
