// What takes longer than a developer waits, and what depends on real time.
const { configOf } = require('./jest.config.cjs');

module.exports = () => configOf('full');
