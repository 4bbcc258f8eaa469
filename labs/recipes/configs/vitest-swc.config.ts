import swc from 'unplugin-swc';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  plugins: [swc.vite({ jsc: { target: 'es2022', transform: { useDefineForClassFields: false } } })],
  test: { include: ['src/**/*.test.ts'], globals: true },
});
