import { defineConfig } from 'vitest/config'

// Patience, not a bound: a machine that is busy with other suites needs more than the five seconds that are the default.
export default defineConfig({ test: { include: ['src/**/*.test.ts'], testTimeout: 30_000 } })
