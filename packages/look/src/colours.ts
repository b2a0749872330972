/** A colour of OKLCH: lightness from 0 to 1, chroma, hue in degrees. */
type Oklch = readonly [lightness: number, chroma: number, hue: number]

interface Colour {
  light: Oklch
  dark: Oklch
}

/** Nothing else in a style names a colour. test/contrast.test.ts says which may be read on which. */
export const colours = {
  /** Behind cards and tables. */
  ground: { light: [0.984, 0.004, 85], dark: [0.175, 0.006, 75] },
  surface: { light: [1, 0, 0], dark: [0.213, 0.007, 75] },
  /** Fields, logs, code. */
  sunken: { light: [0.962, 0.006, 85], dark: [0.15, 0.006, 75] },
  /** Between rows, around cards: decoration that nobody has to see. */
  line: { light: [0.905, 0.007, 85], dark: [0.305, 0.008, 75] },
  /** Around fields and quiet buttons. */
  edge: { light: [0.62, 0.012, 80], dark: [0.56, 0.012, 80] },
  ink: { light: [0.215, 0.012, 75], dark: [0.94, 0.006, 85] },
  soft: { light: [0.475, 0.014, 75], dark: [0.735, 0.012, 80] },
  faint: { light: [0.53, 0.014, 75], dark: [0.66, 0.012, 80] },
  accent: { light: [0.5, 0.19, 264], dark: [0.745, 0.125, 264] },
  'on-accent': { light: [1, 0, 0], dark: [0.17, 0.03, 264] },
  'accent-tint': { light: [0.955, 0.018, 264], dark: [0.28, 0.06, 264] },
  ok: { light: [0.47, 0.115, 152], dark: [0.78, 0.14, 152] },
  'ok-tint': { light: [0.955, 0.035, 152], dark: [0.275, 0.05, 152] },
  warn: { light: [0.5, 0.1, 70], dark: [0.82, 0.13, 80] },
  'warn-tint': { light: [0.96, 0.035, 85], dark: [0.29, 0.05, 80] },
  bad: { light: [0.5, 0.19, 27], dark: [0.745, 0.14, 25] },
  'bad-tint': { light: [0.955, 0.02, 27], dark: [0.285, 0.07, 25] },
  /** Lines of a chart, each labelled at its end. */
  'series-1': { light: [0.55, 0.17, 264], dark: [0.7, 0.14, 264] },
  'series-2': { light: [0.59, 0.12, 70], dark: [0.8, 0.13, 70] },
  'series-3': { light: [0.56, 0.19, 350], dark: [0.74, 0.14, 350] },
  'series-4': { light: [0.55, 0.13, 152], dark: [0.76, 0.13, 152] },
} as const satisfies Record<string, Colour>

export type ColourName = keyof typeof colours

/** A colour as CSS. */
export const cssColour = (name: ColourName, scheme: keyof Colour): string => `oklch(${colours[name][scheme].join(' ')})`
