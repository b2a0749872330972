import { expect, test } from 'vitest'
import { gzippedBytes } from './bundle.ts'

const start = `const platform = new Platform({ baseUrl: location.origin, credential: apiKey({ id: 'key', secret: prompt() }) })`

test('a program with one operation is at most 2,560 bytes', async () => {
  const bytes = await gzippedBytes(`import { apiKey, listApplications, Platform } from '../src/index.ts'
    ${start}
    console.log(await listApplications(platform, { limit: 5 }))`)
  expect(bytes).toBeLessThanOrEqual(2_560)
})

test('a program that walks pages is at most 3,072 bytes', async () => {
  const bytes = await gzippedBytes(`import { all, apiKey, listApplications, Platform } from '../src/index.ts'
    ${start}
    for await (const { name } of all(listApplications, platform)) console.log(name)`)
  expect(bytes).toBeLessThanOrEqual(3_072)
})

test('a program that follows a stream is at most 6,144 bytes', async () => {
  const bytes =
    await gzippedBytes(`import { all, apiKey, follow, listApplications, Platform, streamBuildLog } from '../src/index.ts'
    ${start}
    for await (const { name } of all(listApplications, platform)) console.log(name)
    for await (const { data } of follow(streamBuildLog, platform, { id: 'x' })) console.log(data)`)
  expect(bytes).toBeLessThanOrEqual(6_144)
})

test('all of it but what needs Node is at most 40 kB, and needs no Node', async () => {
  const entries = ['index.ts', 'sign-in/index.ts', 'uploads/index.ts', 'pack/index.ts', 'dotenv/index.ts']
  const bytes = await gzippedBytes(entries.map((entry, n) => `export * as e${n} from '../src/${entry}'`).join('\n'))
  expect(bytes).toBeLessThanOrEqual(40_000)
})
