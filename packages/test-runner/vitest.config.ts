import { defineConfig } from 'vitest/config'
import { testSettings } from './src/settings.ts'

export default defineConfig({ test: testSettings() })
