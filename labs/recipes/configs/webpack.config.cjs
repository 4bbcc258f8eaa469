const TerserPlugin = require('terser-webpack-plugin');

module.exports = {
  mode: 'production',
  target: 'node',
  entry: './src/main.ts',
  // Packages that are installed beside the bundle, so that its process has one copy of each.
  externals: [/^@nestjs\//, 'nestjs-redis-lock', 'ioredis', 'rxjs', 'reflect-metadata'],
  externalsType: 'node-commonjs',
  module: {
    rules: [
      {
        test: /\.ts$/,
        loader: 'swc-loader',
        options: {
          jsc: {
            parser: { syntax: 'typescript', decorators: true },
            transform: { legacyDecorator: true, decoratorMetadata: true },
          },
        },
      },
    ],
  },
  resolve: { extensions: ['.ts', '.js'], extensionAlias: { '.js': ['.ts', '.js'] } },
  optimization: { minimizer: [new TerserPlugin({ terserOptions: { keep_classnames: true } })] },
  output: { filename: 'main.cjs' },
};
