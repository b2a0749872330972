import { expect, test } from 'vitest'
import { plainText, readEscapes } from '../src/log/escapes.ts'

const E = '\u001b'
const pieces = (text: string) => readEscapes(text).pieces
const link = (address: string, text: string): string => `${E}]8;;${address}${E}\\${text}${E}]8;;${E}\\`

test('text without escape sequences is one piece, and HTML in it is text', () => {
  const text = '<img src=x onerror=alert(1)> &amp; </pre><script>alert(1)</script>\ttab'
  expect(pieces(text)).toEqual([{ text }])
})

test('an empty line has no pieces', () => {
  expect(pieces('')).toEqual([])
  expect(pieces('\r\n')).toEqual([])
})

test('colours of SGR become the classes of the theme until they are reset', () => {
  expect(pieces(`a${E}[31mb${E}[0mc${E}[1;32md${E}[me${E}[33mf${E}[39mg`)).toEqual([
    { text: 'a' },
    { text: 'b', class: 'text-bad' },
    { text: 'c' },
    { text: 'd', class: 'text-ok font-semibold' },
    { text: 'e' },
    { text: 'f', class: 'text-warn' },
    { text: 'g' },
  ])
})

test('bold, dim, italic, underlined and struck text become classes and end one by one', () => {
  expect(pieces(`${E}[1;3;4;9mall${E}[22;23;24;29mnone${E}[2mdim${E}[4:3mwavy${E}[4:0mflat`)).toEqual([
    { text: 'all', class: 'font-semibold italic underline line-through' },
    { text: 'none' },
    { text: 'dim', class: 'text-soft' },
    { text: 'wavy', class: 'text-soft underline' },
    { text: 'flat', class: 'text-soft' },
  ])
})

test('a coloured ground brings the ink that can be read on it', () => {
  expect(pieces(`${E}[37;41m FAIL ${E}[0;7;32m DONE ${E}[0;7m x `)).toEqual([
    { text: ' FAIL ', class: 'bg-bad-tint text-bad' },
    { text: ' DONE ', class: 'bg-ok-tint text-ok' },
    { text: ' x ', class: 'bg-line text-ink' },
  ])
})

test.each([
  ['38;5;9', 'text-bad'],
  ['38;5;46', 'text-ok'],
  ['38;5;244', 'text-soft'],
  ['38;5;255', undefined],
  ['38;2;255;60;60', 'text-bad'],
  ['38;2;250;200;0', 'text-warn'],
  ['38;2;0;120;255', 'text-accent'],
  ['38:2::200:0:200', 'text-series-3'],
  ['38:5:9', 'text-bad'],
  ['90', 'text-soft'],
  ['97', undefined],
])('the colour %s becomes the nearest one of the theme: %s', (parameters, own) => {
  expect(pieces(`${E}[${parameters}mx`)).toEqual([{ text: 'x', ...(own && { class: own }) }])
})

test('the parameters of a colour are not read as codes of their own', () => {
  expect(pieces(`${E}[38;5;1;4mx${E}[0;48;2;1;4;9my`)).toEqual([
    { text: 'x', class: 'text-bad underline' },
    { text: 'y', class: 'bg-line text-ink' },
  ])
})

test('a link of OSC 8 keeps its address if that is https', () => {
  expect(pieces(`see ${link('https://example.com/a?b#c', 'here')} now`)).toEqual([
    { text: 'see ' },
    { text: 'here', href: 'https://example.com/a?b#c' },
    { text: ' now' },
  ])
})

test.each([
  'javascript:alert(1)',
  'JavaScript:alert(1)//https://example.com',
  'data:text/html,<script>alert(1)</script>',
  'http://example.com',
  'file:///etc/passwd',
  'https://github.com@example.org/',
  '//example.org',
  'not an address',
  `https://example.com/${'x'.repeat(3_000)}`,
])('a link of OSC 8 to %s is text', (address) => {
  expect(pieces(link(address, 'here'))).toEqual([{ text: 'here' }])
})

test('a link inside a link leads to the inner address, and the end ends both', () => {
  const text = `${E}]8;;https://a.example${E}\\a${E}]8;id=1;https://b.example\u0007b${E}]8;;\u0007c`
  expect(pieces(text)).toEqual([
    { text: 'a', href: 'https://a.example/' },
    { text: 'b', href: 'https://b.example/' },
    { text: 'c' },
  ])
})

test.each([
  ['the cursor', `${E}[2K${E}[1;1H${E}[?25l${E}[0J`],
  ['the title', `${E}]0;title\u0007`],
  ['a device', `${E}Pq#0;2;0;0;0${E}\\`],
  ['an application', `${E}_private${E}\\`],
  ['the character set', `${E}(B`],
  ['the state', `${E}7${E}8${E}c`],
  ['a query that ends in m', `${E}[>4;2m`],
  ['a colour that does not end', `${E}[31`],
])('a control sequence for %s is dropped in whole', (_, sequence) => {
  expect(pieces(`a${sequence}`)).toEqual([{ text: 'a' }])
})

test('a string sequence that does not end hides nothing', () => {
  expect(plainText(`a${E}]8;;https://example.com and the rest`)).toBe('a⟨U+001B⟩]8;;https://example.com and the rest')
  expect(plainText(`a${E}Pabc${E}[31mred`)).toBe('a⟨U+001B⟩Pabcred')
})

test('a sequence inside another one is not put together from what is left', () => {
  expect(plainText(`${E}[3${E}[31m1mx`)).toBe('1mx')
  expect(plainText(`${E}${E}[31mx`)).toBe('⟨U+001B⟩x')
})

test.each([
  ['\u0000', '0000'],
  ['\u0008', '0008'],
  ['\u007f', '007F'],
  ['\u009b', '009B'],
  ['\u00ad', '00AD'],
  ['\u061c', '061C'],
  ['\u200b', '200B'],
  ['\u200e', '200E'],
  ['\u200f', '200F'],
  ['\u2028', '2028'],
  ['\u202a', '202A'],
  ['\u202e', '202E'],
  ['\u2066', '2066'],
  ['\u2069', '2069'],
  ['\u3164', '3164'],
  ['\ufeff', 'FEFF'],
  ['\u{e0041}', 'E0041'],
])('a character that cannot be seen is shown by its number: %j', (character, number) => {
  expect(plainText(`a${character}b`)).toBe(`a⟨U+${number}⟩b`)
})

test('a mark that turns the direction around looks unlike a text that spells its number', () => {
  expect(pieces('a\u202eb⟨U+202E⟩')).toEqual([
    { text: 'a' },
    { text: '⟨U+202E⟩', class: 'bg-warn-tint text-warn' },
    { text: 'b⟨U+202E⟩' },
  ])
})

test('pictures made of several characters stay whole, and a joiner anywhere else is shown', () => {
  expect(plainText('✔️ 👩‍💻 👩🏽‍🚀')).toBe('✔️ 👩‍💻 👩🏽‍🚀')
  expect(plainText('pass\u200dword')).toBe('pass⟨U+200D⟩word')
})

test('of a progress that is written over again, the last state is shown', () => {
  expect(plainText('10 %\r50 %\r100 %\r\n')).toBe('100 %')
  expect(plainText('10 %\r20 %\r')).toBe('20 %')
  expect(plainText('one\r\ntwo 1\rtwo 2\nthree')).toBe('one\ntwo 2\nthree')
})

test('a cut line has no more characters than are asked for and does not divide one', () => {
  expect(readEscapes('abcdef', 6)).toEqual({ pieces: [{ text: 'abcdef' }], isCut: false })
  expect(readEscapes('abcdefg', 6)).toEqual({ pieces: [{ text: 'abcdef' }], isCut: true })
  expect(readEscapes(`abc${E}[31mdefg`, 6)).toEqual({
    pieces: [{ text: 'abc' }, { text: 'def', class: 'text-bad' }],
    isCut: true,
  })
  expect(readEscapes('abcde😀', 6)).toEqual({ pieces: [{ text: 'abcde' }], isCut: true })
  expect(readEscapes(`${E}[31m${E}[32m${'x'.repeat(6)}${E}[0m`, 6).isCut).toBe(false)
})

const MEGABYTE = 1_048_576

/** Pieces of a hostile line, with what stands before them, and what is shown of the line. */
const HOSTILE: readonly (readonly [name: string, opener: string, part: string, shown: RegExp])[] = [
  ['letters', '', 'x', /^x{1048576}$/],
  ['colours', '', `${E}[31mx${E}[0m`, /^x{104858}$/],
  ['parameters', `${E}[`, '1;', /^$/],
  ['escape characters', '', E, /^(⟨U\+001B⟩)+$/],
  ['beginnings of a sequence', '', `${E}[`, /^\[*$/],
  ['beginnings of a string', '', `${E}]8;;`, /^(⟨U\+001B⟩\]8;;)+/],
  ['a string that never ends', `${E}]`, '8;;https://', /^⟨U\+001B⟩\](8;;https:\/\/)+/],
  ['carriage returns', '', '\r', /^$/],
  ['lines that are written over', '', 'a\rb\n', /^(b\n)+b?$/],
  ['marks that turn the direction around', '', '\u202e', /^(⟨U\+202E⟩)+$/],
  ['joined pictures', '', '👩\u200d', /^(👩\u200d)+/u],
]

// By the square of its length, each would take minutes.
test.each(HOSTILE)('a line of 1 MB of %s is read in time', (_, opener, part, shown) => {
  const text = opener + part.repeat(Math.ceil(MEGABYTE / part.length))
  expect(shown.test(plainText(text))).toBe(true)
})
