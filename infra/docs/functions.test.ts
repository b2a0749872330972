import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { ATTEMPTS } from '@platform/sandbox/attempts'
import { expect, test } from 'vitest'

const repository = resolve(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(resolve(repository, path), 'utf8')
const page = read('docs/functions.md')

/** Cells of the rows below a heading of a table. */
function rowsBelow(heading: string): string[][] {
  const [, rows = ''] = page.split(`${heading}\n`)
  const end = rows.search(/^(?!\|)/m)
  return rows
    .slice(0, end)
    .trim()
    .split('\n')
    .slice(1)
    .map((row) =>
      row
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )
}

test('docs/functions.md has every attempt of the sandbox’s tests, in their order, with an answer that they accept', () => {
  const rows = rowsBelow('| It tries to | and gets | Because of |')
  expect(rows.map(([name]) => name)).toEqual(ATTEMPTS.map(({ name }) => name))
  for (const [index, { name, answer }] of ATTEMPTS.entries()) {
    const cell = rows[index]?.[1] ?? ''
    expect(cell === 'nothing' ? '' : cell.replaceAll('`', ''), name).toMatch(answer)
  }
})

test('docs/functions.md has every spelling of an address that the network’s tests close', () => {
  const source = read('packages/sandbox/src/test-network.ts')
  const closed = source.slice(source.indexOf('const CLOSED'), source.indexOf('].map((host)'))
  const spellings = [...closed.matchAll(/'([^']+)'/g)].map(([, spelling]) => spelling)
  expect(spellings.length).toBeGreaterThan(30)
  expect(spellings.filter((spelling) => !page.includes(`\`${spelling}\``))).toEqual([])
})
