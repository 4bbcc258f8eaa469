// The first file of the command `nestjs-redis-lock`. It imports nothing by `import … from`, and no other file imports
// it: a command must not run twice if a link leads to this file.
void import('./main.js').then(({ main }) => main());
