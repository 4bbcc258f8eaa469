// The environment of Jest, in the copy of the repository. A red test ends the process of a mutant. Without a mutant, it
// notes what each spec file reaches.
const { appendFileSync } = require('node:fs');
const { TestEnvironment } = require('jest-environment-node');
const { MUTANT, MUTATION_OUT, MUTATION_FILES } = process.env;
module.exports = class extends TestEnvironment {
  constructor(...args) {
    super(...args);
    this.notes = {};
    this.depth = 0;
    this.global.mutantFiles = JSON.parse(MUTATION_FILES);
    this.global.isMutant = (id) => {
      this.notes[this.file]?.[this.isRunning ? 'reached' : 'loaded'].add(id);
      return id === Number(MUTANT);
    };
  }
  enter(file) {
    this.file = file;
    this.notes[file] ??= { ms: 0, reached: new Set(), loaded: new Set() };
    this.since = performance.now();
  }
  handleTestEvent({ name, blockName, describeBlock, test, error }) {
    if (name === 'start_describe_definition' && this.depth++ === 0) this.enter(blockName);
    if (name === 'finish_describe_definition') this.depth -= 1;
    if (name === 'run_start') this.isRunning = true;
    const isFile = describeBlock?.parent !== undefined && describeBlock.parent.parent === undefined;
    if (name === 'run_describe_start' && isFile) this.enter(describeBlock.name);
    if (name === 'run_describe_finish' && isFile) this.notes[this.file].ms += performance.now() - this.since;
    const isRed = name === 'hook_failure' || name === 'error' || (name === 'test_done' && test.errors.length > 0);
    if (!isRed) return;
    const what = test?.name ?? String(error);
    if (MUTANT === '0') this.notes[this.file].red = what;
    else {
      appendFileSync(MUTATION_OUT, JSON.stringify({ by: this.file, test: what }));
      process.exit(1);
    }
  }
  async teardown() {
    const asList = (_, value) => (value instanceof Set ? [...value] : value);
    appendFileSync(MUTATION_OUT, JSON.stringify({ notes: this.notes }, asList) + '\n');
    await super.teardown();
  }
};
