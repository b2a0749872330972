import { expect, test } from 'vitest'
import { childText, readXml } from './read-xml.ts'
import { writeXml } from './write-xml.ts'

const read = (text: string | Buffer, max = 100) => readXml(Buffer.from(text), 'Delete', max)

test('elements, references, CDATA, prefixes and white space are read', () => {
  const node = read(
    '<?xml version="1.0"?>\n<s:Delete xmlns:s="x"> <s:Quiet> true </s:Quiet><Object><Key> a&amp;b&#x20;<![CDATA[<c>]]></Key></Object></s:Delete>',
  )
  expect(childText(node, 'Quiet')).toBe('true')
  expect(node.children[1]?.children[0]?.text).toBe(' a&b <c>')
})

const bomb = `<!DOCTYPE Delete [<!ENTITY a "${'x'.repeat(1_000)}">]><Delete>${'&a;'.repeat(1_000)}</Delete>`
test.each([
  ['a document type', '<!DOCTYPE Delete><Delete/>'],
  ['entities that multiply', bomb],
  ['an external entity', '<!DOCTYPE Delete [<!ENTITY x SYSTEM "file:///etc/passwd">]><Delete>&x;</Delete>'],
  ['an entity nobody declared', '<Delete>&x;</Delete>'],
  ['an element left open', '<Delete><Object></Delete>'],
  ['no end', '<Delete><Object>'],
  ['nothing', ''],
  ['two roots', '<Delete/><Delete/>'],
  ['another root', '<Remove/>'],
  ['a NUL', '<Delete>&#0;</Delete>'],
  ['broken UTF-8', Buffer.from([0x3c, 0xff])],
  ['too many elements', `<Delete>${'<a/>'.repeat(100)}</Delete>`],
  ['elements too deep', `<Delete>${'<a>'.repeat(50)}${'</a>'.repeat(50)}</Delete>`],
])('a document with %s is MalformedXML', (_, text) => {
  expect(() => read(text)).toThrow(expect.objectContaining({ code: 'MalformedXML' }))
})

test('what is written reads back, whatever a key holds', () => {
  const key = `a&<b>"'\r\n\t🦊`
  const node = readXml(
    Buffer.from(writeXml('R', { A: { Key: key }, B: ['1', '2'], C: undefined, D: 5, E: '' })),
    'R',
    9,
  )
  expect(node.children.map(({ name }) => name)).toEqual(['A', 'B', 'B', 'D', 'E'])
  expect(node.children[0]?.children[0]?.text).toBe(key)
})

test('what XML cannot carry is written as a reference, never as another character', () => {
  expect(writeXml('R', { Key: 'a\u0001\u0007\uffffb' })).toContain('<Key>a&#x1;&#x7;&#xffff;b</Key>')
  expect(writeXml('R', 'a\r\n\tb')).toContain('>a&#xd;&#xa;&#x9;b</R>')
})
