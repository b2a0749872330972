import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts'],
    globalSetup: ['@platform/testkit/global-setup'],
    hookTimeout: 60_000,
    testTimeout: 30_000,
  },
})
