// The first file of the command `nestjs-redis-lock`. It imports nothing by `import … from`, so that the build puts no
// code into it that other files share. The process would load such a file twice if a link leads to it.
void import('./main.js').then(({ main }) => main());
