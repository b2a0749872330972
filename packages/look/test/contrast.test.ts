import Color from 'colorjs.io'
import { expect, test } from 'vitest'
import { type ColourName, colours, cssColour } from '../src/colours.ts'

type Scheme = 'light' | 'dark'

const colourOf = (name: ColourName, scheme: Scheme): Color => new Color(cssColour(name, scheme))

/** The contrast of two colours (WCAG 2.2), to a tenth. */
const contrast = (one: ColourName, other: ColourName, scheme: Scheme): number =>
  Math.round(colourOf(one, scheme).contrast(colourOf(other, scheme), 'WCAG21') * 10) / 10

const names = Object.keys(colours) as ColourName[]

const grounds = ['ground', 'surface', 'sunken'] as const

test.each<[ColourName, readonly ColourName[], light: number, dark: number]>([
  // Of a field's outline and a chart's line WCAG asks for 3, of text for 4.5.
  ['edge', grounds, 3.3, 3.8],
  ['ink', grounds, 15.6, 14.7],
  ['soft', grounds, 6, 7.5],
  ['faint', grounds, 4.7, 5.6],
  ['accent', grounds, 5.6, 7.7],
  ['ok', grounds, 5.8, 9.3],
  ['warn', grounds, 5.5, 9.9],
  ['bad', grounds, 5.9, 7.3],
  ['on-accent', ['accent'], 6.2, 8.4],
  ['accent', ['accent-tint'], 5.4, 5.4],
  ['ok', ['ok-tint'], 5.4, 5.4],
  ['warn', ['warn-tint'], 5.4, 5.4],
  ['bad', ['bad-tint'], 5.4, 5.4],
  ['ink', ['accent-tint', 'ok-tint', 'warn-tint', 'bad-tint'], 11.9, 11.9],
  ['series-1', grounds, 3.7, 3.7],
  ['series-2', grounds, 3.7, 3.7],
  ['series-3', grounds, 3.7, 3.7],
  ['series-4', grounds, 3.7, 3.7],
])('%s can be told from %j by %d : 1 in light and by %d : 1 in dark', (name, behind, light, dark) => {
  const low = (scheme: Scheme) => Math.min(...behind.map((other) => contrast(name, other, scheme)))
  expect(low('light')).toBeGreaterThanOrEqual(light)
  expect(low('dark')).toBeGreaterThanOrEqual(dark)
})

test('every colour but the line between rows is held to a contrast', () => {
  const held = new Set<string>([...grounds, 'edge', 'ink', 'soft', 'faint', 'accent', 'on-accent', 'ok', 'warn', 'bad'])
  const isHeld = (name: string) => held.has(name) || name.endsWith('-tint') || name.startsWith('series-')
  expect(names.filter((name) => !isHeld(name))).toEqual(['line'])
})

test('every colour is one that every screen can show', () => {
  const wide = names.filter((name) =>
    (['light', 'dark'] as const).some((scheme) => !colourOf(name, scheme).inGamut('srgb')),
  )
  expect(wide).toEqual([])
})
