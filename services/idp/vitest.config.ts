import { testSettings } from '@platform/test-runner/settings'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: testSettings({
    globalSetup: ['@platform/testkit/global-setup'],
    setupFiles: ['@platform/testkit/record-statements', '@platform/testkit/replace-metrics'],
    // Half the CPU of a run: files share what was imported and compiled, and with it what modules keep, such as metrics.
    isolate: false,
  }),
})
