import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { FOLDER, pictures } from './tour.ts'

test('the tour of the console shows the pictures that the walks take, and no others', async () => {
  const tour = await readFile(join(FOLDER, '../console.md'), 'utf8')
  const shown = [...tour.matchAll(/!\[[^\]]+\]\(console\/([\w-]+)\.png\)/g)].map(([, name]) => name)
  expect(new Set(shown)).toEqual(new Set(pictures))
  expect(new Set(await readdir(FOLDER))).toEqual(new Set(pictures.map((name) => `${name}.png`)))
})

test('each picture of the tour is taken by a walk', async () => {
  const walks = (await readdir(import.meta.dirname)).filter((name) => name.endsWith('.chromium.test.ts'))
  const sources = await Promise.all(walks.map((name) => readFile(join(import.meta.dirname, name), 'utf8')))
  const taken = sources.flatMap((text) =>
    [...text.matchAll(/takePicture\(page, '([\w-]+)'\)/g)].map(([, name]) => name),
  )
  expect(new Set(taken)).toEqual(new Set(pictures))
})
