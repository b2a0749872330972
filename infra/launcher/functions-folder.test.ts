import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { makeFunctionsFolder } from './functions-folder.ts'

let dataFolder: string
let other: string
const made: string[] = []

beforeEach(() => {
  dataFolder = mkdtempSync(join(tmpdir(), 'platform-launcher-test-'))
  other = mkdtempSync(join(tmpdir(), 'platform-launcher-test-'))
})
afterEach(() => {
  for (const folder of [dataFolder, other, ...made.splice(0)]) rmSync(folder, { recursive: true, force: true })
})

function make(owner: string): string {
  const folder = makeFunctionsFolder(owner)
  made.push(folder)
  return folder
}

test('it is short, of one data folder, and lets others pass without seeing what is in it', () => {
  const folder = make(dataFolder)
  expect(folder.length).toBeLessThanOrEqual(41)
  expect(statSync(folder).mode & 0o777).toBe(0o711)
  expect(make(other)).not.toBe(folder)
})

test('it is used again as long as its data folder is there, and goes with the next start once that is gone', () => {
  const folder = make(dataFolder)
  writeFileSync(join(folder, 'kept'), '')
  expect(make(dataFolder)).toBe(folder)
  expect(existsSync(join(folder, 'kept'))).toBe(true)
  rmSync(dataFolder, { recursive: true })
  make(other)
  expect(existsSync(folder)).toBe(false)
})

test('a link in its place is refused', () => {
  const folder = make(dataFolder)
  rmSync(folder, { recursive: true })
  const elsewhere = join(other, 'elsewhere')
  mkdirSync(elsewhere)
  symlinkSync(elsewhere, folder)
  expect(() => makeFunctionsFolder(dataFolder)).toThrow(/cannot be used for Functions: remove it, or name another/)
  expect(statSync(elsewhere).mode & 0o777).not.toBe(0o711)
})
