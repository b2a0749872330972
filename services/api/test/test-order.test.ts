import { globSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'
import { alone, long } from '../vitest.config.ts'

const cwd = resolve(import.meta.dirname, '..')
const testFiles = globSync('{src,test}/**/*.test.ts', { cwd })

test.each(alone)('%s, which runs alone, matches test files and nothing else', (pattern) => {
  const found = globSync(pattern, { cwd })
  expect(found).not.toEqual([])
  expect(found.filter((file) => !testFiles.includes(file))).toEqual([])
})

test.each(long)('%s, which runs first, is the end of one test file’s path', (end) => {
  expect(testFiles.filter((file) => `/${file}`.endsWith(end))).toHaveLength(1)
})
