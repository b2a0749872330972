import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: { globalSetup: '@platform/testkit/global-setup', testTimeout: 60_000 },
})
