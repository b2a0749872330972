import { globSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'

const repository = resolve(import.meta.dirname, '../..')
const pages = ['README.md', ...globSync('docs/**/*.md', { cwd: repository })]

test('no command on a page is followed by a comment, which an interactive zsh takes for words', () => {
  const commands = pages.flatMap((page) =>
    [...readFileSync(resolve(repository, page), 'utf8').matchAll(/^ *```sh\n([^]*?)^ *```$/gm)].flatMap(
      ([, block = '']) => block.split('\n').map((line) => `${page}: ${line}`),
    ),
  )
  expect(commands.length).toBeGreaterThan(200)
  expect(commands.filter((line) => /: .*\S\s+#\s/.test(line))).toEqual([])
})
