// Run in a consumer, with options of the compiler: `node ../compile.cjs --module node16`. Compiles the consumer, and
// checks its sources and the declarations of the package. `tsc` would check the declarations of all packages.
const ts = require('typescript');

/** A program without them would prove nothing. */
const LEAST_DECLARATIONS = 10;

const fail = ({ messageText }) => {
  throw new Error(ts.flattenDiagnosticMessageText(messageText, '\n'));
};
const { options: given } = ts.parseCommandLine(process.argv.slice(2));
const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: fail };
const { fileNames, options, errors } = ts.getParsedCommandLineOfConfigFile('tsconfig.json', given, host);
const program = ts.createProgram(fileNames, { ...options, skipLibCheck: false });

const files = program.getSourceFiles();
const declarations = files.filter(({ fileName }) => fileName.includes('/node_modules/nestjs-redis-lock/'));
if (declarations.length < LEAST_DECLARATIONS)
  throw new Error(`there are ${declarations.length} declaration files only`);
const sources = files.filter(({ fileName }) => !fileName.includes('/node_modules/'));
const found = [
  ...errors,
  ...program.getOptionsDiagnostics(),
  ...[...sources, ...declarations].flatMap((file) => [
    ...program.getSyntacticDiagnostics(file),
    ...program.getSemanticDiagnostics(file),
  ]),
];
program.emit();
const formatting = { getCanonicalFileName: (name) => name, getCurrentDirectory: () => '.', getNewLine: () => '\n' };
process.stdout.write(ts.formatDiagnostics(found, formatting));
process.exitCode = found.length > 0 ? 1 : 0;
