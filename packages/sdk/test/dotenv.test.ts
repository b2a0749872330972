import { expect, test } from 'vitest'
import { parseDotenv, problemOfKey, problemOfValue, readDotenv, writeDotenv } from '../src/dotenv/index.ts'
import { awkwardValues } from './awkward-values.ts'

test('a file of variables reads back every value byte for byte', () => {
  const variables = awkwardValues().map((value, index) => ({ key: `KEY_${index}`, value }))
  expect([...parseDotenv(writeDotenv(variables))].map(([key, value]) => ({ key, value }))).toEqual(variables)
})

test.each([
  ['A=1\nB=2\n', { A: '1', B: '2' }],
  ['\uFEFFexport A=1 # said\r\n\r\n  # nothing\n  B = two words  \n', { A: '1', B: 'two words' }],
  ['A="line\\nline" # said\nB=\'$HOME\\n\'\nC=`"\'`\nD=\n', { A: 'line\nline', B: '$HOME\\n', C: '"\'', D: '' }],
  ['A="two\nlines"\nA=last', { A: 'last' }],
  ['# first\r\nA=1\r\nB="2" # said\r\n\r\n', { A: '1', B: '2' }],
  ['URL=http://x/#fragment\nE="\\d\\$"', { URL: 'http://x/#fragment', E: '\\d$' }],
])('a file that others wrote is read as they mean it: %j', (text, variables) => {
  expect(Object.fromEntries(parseDotenv(text))).toEqual(variables)
})

test.each([
  ['A=1\nhello\n', 'Line 2: expected KEY=value'],
  ['1A=1', 'Line 1: expected KEY=value'],
  ['A=1\nB="open\n', 'Line 2: the value of B has no closing "'],
  ['A="1" 2', 'Line 1: there is more behind the value of A'],
])('a line that is not a variable is named: %j', (text, message) => {
  expect(() => parseDotenv(text)).toThrow(message)
})

test('a key that is there twice is read twice, in the order of the file', () => {
  expect(readDotenv("A=1\nB=2\nexport A='3'\n")).toEqual([
    { key: 'A', value: '1' },
    { key: 'B', value: '2' },
    { key: 'A', value: '3' },
  ])
})

test.each([
  ['', "is not a variable's name"],
  ['1A', "is not a variable's name"],
  ['A-B', "is not a variable's name"],
  ['É', "is not a variable's name"],
  ['A'.repeat(256), "is not a variable's name"],
  ['PLATFORM_URL', 'PLATFORM_URL is reserved'],
])('a name that the platform refuses is told why: %j', (key, sentence) => {
  expect(problemOfKey(key)).toContain(sentence)
})

test.each(['_', 'a1', 'A'.repeat(255), 'PLATFORMS'])('a name that the platform takes has no problem: %j', (key) => {
  expect(problemOfKey(key)).toBeUndefined()
})

test('a value has at most 65,536 bytes of UTF-8 and no NUL, and the sentence does not hold it', () => {
  expect(problemOfValue('A', 'é'.repeat(32_768))).toBeUndefined()
  expect(problemOfValue('A', `${'é'.repeat(32_768)}x`)).toBe('The value of A has 65537 bytes: expected 65536 at most')
  expect(problemOfValue('A', 'x\0')).toBe('The value of A holds a NUL, which no variable can')
})
