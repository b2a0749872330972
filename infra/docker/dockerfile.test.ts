import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'

const repository = resolve(import.meta.dirname, '../..')

test('the image installs from the manifest of every package that a service may import', () => {
  const copied = [
    ...readFileSync(resolve(repository, 'infra/Dockerfile'), 'utf8').matchAll(/^COPY (\S+)\/package\.json/gm),
  ]
  const packages = ['packages', 'services'].flatMap((folder) =>
    readdirSync(resolve(repository, folder)).map((name) => `${folder}/${name}`),
  )
  expect(copied.map(([, folder = '']) => folder).toSorted()).toEqual(packages.toSorted())
})
