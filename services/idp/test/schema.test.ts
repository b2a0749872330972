import { createServiceDatabase } from '@platform/testing/service-databases'
import { schemaText } from '@platform/testkit/schema-text'
import { expect, test } from 'vitest'

test('the migrations make the schema that test/schema.golden.sql shows (`npm run schema` writes it)', async () => {
  const { url } = await createServiceDatabase('idp')
  await expect(await schemaText(url)).toMatchFileSnapshot('schema.golden.sql')
})
