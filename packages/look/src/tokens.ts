import { type ColourName, colours, cssColour } from './colours.ts'
import { fontFiles } from './font.ts'

/** Sizes of text with their line heights, in pixels at the browser's own size. */
const texts: readonly (readonly [size: number, line: number])[] = [
  [12, 16],
  [13, 20],
  [14, 20],
  [16, 24],
  [20, 28],
  [24, 32],
  [32, 40],
]
const spaces = [4, 8, 12, 16, 24, 32, 48, 64]
const radii = { badge: 4, control: 8, dialog: 12 }

const rem = (pixels: number): string => `${pixels / 16}rem`

const tokens: Record<string, string> = {
  ...Object.fromEntries(
    (Object.keys(colours) as ColourName[]).map((name) => [
      name,
      `light-dark(${cssColour(name, 'light')}, ${cssColour(name, 'dark')})`,
    ]),
  ),
  sans: 'Inter, ui-sans-serif, system-ui, -apple-system, "Segoe UI", sans-serif',
  mono: 'ui-monospace, "SF Mono", Menlo, Consolas, monospace',
  ...Object.fromEntries(texts.map(([size, line]) => [`text-${size}`, `${rem(size)}/${rem(line)}`])),
  ...Object.fromEntries(spaces.map((space) => [`space-${space}`, rem(space)])),
  ...Object.fromEntries(Object.entries(radii).map(([name, radius]) => [`radius-${name}`, `${radius}px`])),
}

const fontFaces = fontFiles
  .map(
    ({ name, range }) =>
      `@font-face { font-family: Inter; font-weight: 100 900; font-display: swap; src: url(${name}) format("woff2"); unicode-range: ${range}; }`,
  )
  .join('\n')

/**
 * The tokens as custom properties, and the font, whose files are expected beside the style sheet. Colours follow `color-scheme`.
 * `--text-16` is a size and its line height, as `font` takes them: `font: 400 var(--text-16) var(--sans)`.
 */
export const tokensCss = `${fontFaces}
:root {
  color-scheme: light dark;
${Object.entries(tokens)
  .map(([name, value]) => `  --${name}: ${value};`)
  .join('\n')}
}
`
