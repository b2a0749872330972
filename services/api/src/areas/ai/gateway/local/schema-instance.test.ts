import { expect, test } from 'vitest'
import { instanceOfSchema } from './schema-instance.ts'

test.each([
  [{ type: 'string' }, ''],
  [{ type: 'string', minLength: 2 }, '  '],
  [{ type: 'integer', minimum: 1.5 }, 2],
  [{ type: 'number', minimum: 1.5 }, 1.5],
  [{ type: 'boolean' }, false],
  [{ type: ['null', 'boolean'] }, false],
  [{ type: 'null' }, null],
  [{ enum: ['b', 'a'] }, 'b'],
  [{ const: 7 }, 7],
  [{ anyOf: [{ type: 'array' }, { type: 'string' }] }, []],
  [{ type: 'array', items: { type: 'integer' }, minItems: 2 }, [0, 0]],
  [{ properties: { a: { type: 'integer' }, b: {} }, required: ['a'] }, { a: 0 }],
  [{ $ref: '#/$defs/a~1b', $defs: { 'a/b': { type: 'string' } } }, ''],
  [{ $ref: 'https://elsewhere.example/schema' }, null],
  [true, null],
])('makes of %o', (schema, instance) => {
  expect(instanceOfSchema(schema)).toEqual(instance)
})

test.each([
  ['asks for itself', { type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] }],
  [
    'asks for itself twice',
    { type: 'object', properties: { a: { $ref: '#' }, b: { $ref: '#' } }, required: ['a', 'b'] },
  ],
  ['points at itself', { $ref: '#' }],
  ['asks for a long array', { type: 'array', minItems: 1e12, items: { type: 'array', minItems: 1e12 } }],
  ['asks for a long text', { type: 'string', minLength: 1e12 }],
])('ends with a schema that %s', (_, schema) => {
  expect(JSON.stringify(instanceOfSchema(schema)).length).toBeLessThan(20_000)
})
