// The first file of the command `nestjs-redis-lock`. It imports nothing by `import … from`, so that the build puts no
// code into it that other files share. A file that imports the one that is still running would wait for itself.
void import('./main.js').then(({ main }) => main());
