import { testSettings } from '@platform/test-runner/settings'
import { defineConfig } from 'vitest/config'

export default defineConfig({ test: testSettings() })
