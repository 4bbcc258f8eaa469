import swc from 'unplugin-swc';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  // The types of constructor parameters, by which Nest injects, are written by SWC and not by Vitest itself.
  plugins: [swc.vite({ jsc: { target: 'es2022', transform: { useDefineForClassFields: false } } })],
  test: { include: ['src/**/*.test.ts'], globals: true },
});
