import { subscribe } from 'node:diagnostics_channel'
import { mkdirSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { afterAll } from 'vitest'
import { type RecordedStatements, STATEMENTS_FOLDER } from './statements.ts'

// A vitest setup file: writes down each different statement that the services of this worker sent to Postgres, for the test that
// prepares all of them on another version.

const global = globalThis as { recordedStatements?: Map<string, Set<string>> }
// Files of one worker share a process, and each loads this file anew.
if (global.recordedStatements === undefined) {
  const recorded = (global.recordedStatements = new Map())
  subscribe('platform:database:statement', (message) => {
    const { pool, text } = message as { pool: string; text: string }
    const texts = recorded.get(pool)
    if (texts === undefined) recorded.set(pool, new Set([text]))
    else texts.add(text)
  })
}

afterAll(() => {
  const folder = resolve(STATEMENTS_FOLDER)
  const byPool: RecordedStatements = {}
  for (const [pool, texts] of global.recordedStatements ?? []) byPool[pool] = [...texts]
  mkdirSync(folder, { recursive: true })
  writeFileSync(resolve(folder, `${process.pid}.json`), JSON.stringify(byPool))
})
