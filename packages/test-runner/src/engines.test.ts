// engines: none, it tells of engines and asks none
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { enginesNotNamed, enginesOf, testFiles } from './engines.ts'
import { repository } from './workspace.ts'

test('a test file that asks an engine names it', () => {
  const files = testFiles(repository)
  expect(files.length).toBeGreaterThan(200)
  const faults = files.flatMap((path) => {
    const missing = enginesNotNamed(path, readFileSync(join(repository, path), 'utf8'))
    return missing.length > 0 ? [`${path} needs the line "// engines: ${missing.join(', ')}"`] : []
  })
  expect(faults).toEqual([])
})

test.each([
  ['postgres', 'const [a, b] = await holding(url, take, [])'],
  ['postgres', 'await sql`select pg_advisory_xact_lock(1)`'],
  ['postgres', 'sql`select 1 from users where id = ${id} FOR UPDATE`'],
  ['postgres', "await db.select().from(users).for('no key update')"],
  ['redis', "import { Redis } from 'ioredis'"],
  ['redis', 'const url = testRedisUrl()'],
  ['s3', 'const objects = await newObjectsUrl()'],
])('a file asks %s by %s', (engine, text) => {
  expect(enginesNotNamed('services/api/test/new.test.ts', text)).toEqual([engine])
  expect(enginesNotNamed('services/api/test/new.test.ts', `// engines: ${engine}\n${text}`)).toEqual([])
})

test.each(['storage/objects', 'storage/s3', 'storage/tus', 'storage/uploads', 'storage/drivers', 'deploy/artifacts'])(
  'every test in the folder %s asks the store of objects',
  (folder) => {
    expect(enginesNotNamed(`services/api/src/areas/${folder}/new.test.ts`, '')).toEqual(['s3'])
  },
)

test('a file may say why no engine changes what it shows', () => {
  const text = 'const objects = await newObjectsUrl()'
  expect(enginesNotNamed('test/new.test.ts', `// engines: none, it cuts the store off\n${text}`)).toEqual([])
  expect(() => enginesOf('// engines: none\n')).toThrow('"none" is not one of the engines')
})

test('an engine that does not exist is refused', () => {
  expect(() => enginesOf('// engines: postgres, mysql\n')).toThrow(
    '"mysql" is not one of the engines postgres, redis, s3',
  )
})
