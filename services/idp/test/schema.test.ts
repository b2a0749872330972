// engines: postgres
import { createServiceDatabase } from '@platform/testing/service-databases'
import { schemaText } from '@platform/testkit/schema-text'
import { getTableName } from 'drizzle-orm'
import { expect, test } from 'vitest'
import * as schema from '../src/schema.ts'

test('the migrations make the schema that test/schema.golden.sql shows (`npm run schema` writes it)', async () => {
  const { url } = await createServiceDatabase('idp')
  await expect(await schemaText(url)).toMatchFileSnapshot('schema.golden.sql')
})

test('src/schema.ts lists every table, so that drizzle-kit takes none for dropped', async () => {
  const { url } = await createServiceDatabase('idp')
  const tables = (await schemaText(url)).matchAll(/^create table (\w+)/gm).map(([, name]) => name)
  expect(new Set(Object.values(schema).map((table) => getTableName(table)))).toEqual(new Set(tables))
})
