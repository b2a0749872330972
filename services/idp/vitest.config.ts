import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    globalSetup: ['@platform/testkit/global-setup'],
    // Half the CPU of a run: files share what was imported and compiled, and with it what modules keep, such as metrics.
    isolate: false,
    hookTimeout: 60_000,
    testTimeout: 30_000,
    // Patience, not a bound: a machine that is busy with other suites needs more than the second that is the default.
    expect: { poll: { timeout: 10_000 } },
  },
})
