/** A part of a line that looks alike. Its text holds no control character but tab and line feed, and nothing that cannot be seen. */
export interface Piece {
  text: string
  /** Classes of the style sheet. */
  class?: string
  /** Always `https:`. */
  href?: string
}

const ESCAPE = '\u001b'
const HREF_CHARACTERS_MAX = 2_048

/**
 * What would be acted on or not be seen: controls, zero-width characters, marks that turn the direction of text around. Tab and line
 * feed are shown by the page, emoji variants are common, and a joiner between two pictures makes one of them.
 */
const UNSEEN =
  /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2028\u2029](?<![\t\n]|[\ufe00-\ufe0f])(?<!\p{Extended_Pictographic}(?:\ufe0f|\p{Emoji_Modifier})?\u200d(?=\p{Extended_Pictographic}))/gu

/** A sequence behind its ESC: CSI, ended or not; a string that ends (OSC, DCS, SOS, PM, APC); or one of few characters. */
const SEQUENCE =
  // oxlint-disable-next-line no-control-regex -- these end a string
  /\[(?<parameters>[0-?]*)[ -/]*(?<final>[@-~]?)|(?<opener>[\]PX^_])(?<string>[^\p{Cc}]*)(?:\u0007|\u009c|\u001b\\)|[ -/]+[0-~]|[0-OQ-WYZ\\`-~]/uy

type Hue = 'red' | 'green' | 'yellow' | 'blue' | 'magenta' | 'grey' | 'plain'

/** SGR's 8 colours. Black and white are the page's own ink, which can be read on either ground. */
const HUES: readonly Hue[] = ['plain', 'red', 'green', 'yellow', 'blue', 'magenta', 'blue', 'plain']

const INK: Record<Hue, string> = {
  red: 'text-bad',
  green: 'text-ok',
  yellow: 'text-warn',
  blue: 'text-accent',
  magenta: 'text-series-3',
  grey: 'text-soft',
  plain: '',
}

/** A ground brings its own ink: any other could not be read on it. */
const GROUND: Record<Hue, string> = {
  red: 'bg-bad-tint text-bad',
  green: 'bg-ok-tint text-ok',
  yellow: 'bg-warn-tint text-warn',
  blue: 'bg-accent-tint text-accent',
  magenta: 'bg-accent-tint text-accent',
  grey: 'bg-line text-ink',
  plain: 'bg-line text-ink',
}

const UNSEEN_CLASS = 'bg-warn-tint text-warn'

interface Style {
  ink?: Hue | undefined
  ground?: Hue | undefined
  isBold?: boolean
  isDim?: boolean
  isItalic?: boolean
  isUnderlined?: boolean
  isStruck?: boolean
  isInverse?: boolean
}

function classOf(style: Style): string {
  const ground = style.isInverse ? (style.ink ?? 'plain') : style.ground
  const ink = style.isDim && (style.ink ?? 'plain') === 'plain' ? 'grey' : (style.ink ?? 'plain')
  return [
    ground === undefined ? INK[ink] : GROUND[ground],
    style.isBold && 'font-semibold',
    style.isItalic && 'italic',
    style.isUnderlined && 'underline',
    style.isStruck && 'line-through',
  ]
    .filter(Boolean)
    .join(' ')
}

/** The nearest hue of a colour whose parts go from 0 to 255. */
function hueOfRgb(red: number, green: number, blue: number): Hue {
  const most = Math.max(red, green, blue)
  const spread = most - Math.min(red, green, blue)
  if (spread < 40) return most > 70 && most < 170 ? 'grey' : 'plain'
  if (most === red) {
    if (blue > green) return blue - green > spread / 3 ? 'magenta' : 'red'
    return green - blue > spread / 2 ? 'yellow' : 'red'
  }
  if (most === green) return red - blue > spread / 2 ? 'yellow' : blue - red > spread / 2 ? 'blue' : 'green'
  return red - green > spread / 2 ? 'magenta' : 'blue'
}

/** Of the palette of 256: 16 colours, a cube of 6 × 6 × 6, and 24 greys. */
function hueOfPalette(index: number): Hue {
  if (index < 16) return index === 8 ? 'grey' : (HUES[index % 8] ?? 'plain')
  if (index > 231) return hueOfRgb(index * 10 - 2_312, index * 10 - 2_312, index * 10 - 2_312)
  const part = (unit: number): number => (Math.floor((index - 16) / unit) % 6) * 51
  return hueOfRgb(part(36), part(6), part(1))
}

/** Parameters behind 38 or 48: `5;n` or `2;r;g;b`. taken: how many of them belong to the colour. */
function colourAt(parameters: readonly number[], from: number): { hue: Hue; taken: number } {
  const [mode, one = 0, two = 0, three = 0] = parameters.slice(from, from + 4)
  if (mode === 5) return { hue: hueOfPalette(one), taken: 2 }
  return mode === 2 ? { hue: hueOfRgb(one, two, three), taken: 4 } : { hue: 'plain', taken: 0 }
}

/** A parameter with parts of its own, such as `4:3` (a wavy line), `38:5:9` or `38:2::255:0:0`. */
function applyParts(style: Style, parameter: string): Style {
  const [code = 0, ...parts] = parameter.split(':', 7).map(Number)
  if (code === 4) return { ...style, isUnderlined: parts[0] !== 0 }
  const { hue } = colourAt(parts[0] === 2 ? [2, ...parts.slice(-3)] : parts, 0)
  return code === 38 ? { ...style, ink: hue } : code === 48 ? { ...style, ground: hue } : style
}

function applyCode(style: Style, code: number): Style {
  if (code >= 30 && code <= 37) return { ...style, ink: HUES[code - 30] }
  if (code >= 40 && code <= 47) return { ...style, ground: HUES[code - 40] }
  if (code >= 90 && code <= 97) return { ...style, ink: hueOfPalette(code - 82) }
  if (code >= 100 && code <= 107) return { ...style, ground: hueOfPalette(code - 92) }
  switch (code) {
    case 0:
      return {}
    case 1:
      return { ...style, isBold: true }
    case 2:
      return { ...style, isDim: true }
    case 3:
      return { ...style, isItalic: true }
    case 4:
    case 21:
      return { ...style, isUnderlined: true }
    case 7:
      return { ...style, isInverse: true }
    case 9:
      return { ...style, isStruck: true }
    case 22:
      return { ...style, isBold: false, isDim: false }
    case 23:
      return { ...style, isItalic: false }
    case 24:
      return { ...style, isUnderlined: false }
    case 27:
      return { ...style, isInverse: false }
    case 29:
      return { ...style, isStruck: false }
    case 39:
      return { ...style, ink: undefined }
    case 49:
      return { ...style, ground: undefined }
    default:
      return style // text that blinks or is concealed is shown as any other
  }
}

/** Select Graphic Rendition (ECMA-48 §8.3.117). */
function applySgr(style: Style, text: string): Style {
  const parameters = text.split(';')
  const codes = parameters.map(Number)
  let styled = style
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at] as number
    if (Number.isNaN(code)) styled = applyParts(styled, parameters[at] as string)
    else if (code === 38 || code === 48) {
      const { hue, taken } = colourAt(codes, at + 1)
      styled = code === 38 ? { ...styled, ink: hue } : { ...styled, ground: hue }
      at += taken
    } else styled = applyCode(styled, code)
  }
  return styled
}

/** The address of an OSC 8 link, `8;PARAMETERS;ADDRESS`; undefined at a link's end, and for what nobody should follow from a log. */
function hrefOf(osc: string): string | undefined {
  const address = osc.slice(osc.indexOf(';', 2) + 1)
  if (address.length > HREF_CHARACTERS_MAX || !URL.canParse(address)) return
  const url = new URL(address)
  // Somebody's name before the host is a disguise: https://github.com@example.org leads to example.org.
  return url.protocol === 'https:' && url.username === '' && url.password === '' ? url.href : undefined
}

const codePointText = (character: string): string =>
  `⟨U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`

/** What a terminal would show in the end of a line that is written over again and again. */
function lastOverwrite(line: string): string {
  const end = line.endsWith('\r') ? line.replace(/\r+$/, '') : line
  return end.slice(end.lastIndexOf('\r') + 1)
}

const withoutOverwritten = (text: string): string =>
  text.includes('\r') ? text.split('\n').map(lastOverwrite).join('\n') : text

/** Collects pieces; neighbours that look alike become one. */
class Pieces {
  readonly list: Piece[] = []
  characters = 0
  style: Style = {}
  href: string | undefined
  #class = ''

  restyle(style: Style): void {
    this.style = style
    this.#class = classOf(style)
  }

  add(text: string, own = this.#class): void {
    if (text === '') return
    const last = this.list.at(-1)
    if (last && (last.class ?? '') === own && last.href === this.href) last.text += text
    else this.list.push({ text, ...(own && { class: own }), ...(this.href && { href: this.href }) })
    this.characters += text.length
  }
}

/** Takes the sequence behind an ESC and returns its length; undefined if there is none, or a string that does not end. */
function takeSequence(pieces: Pieces, text: string, from: number): number | undefined {
  SEQUENCE.lastIndex = from
  const found = SEQUENCE.exec(text)
  const { parameters, final, opener, string } = found?.groups ?? {}
  if (final === 'm' && parameters !== undefined && /^[0-9:;]*$/.test(parameters))
    pieces.restyle(applySgr(pieces.style, parameters))
  if (opener === ']' && string?.startsWith('8;')) pieces.href = hrefOf(string)
  return found?.[0].length
}

interface Escapes {
  pieces: Piece[]
  /** Whether there was more than charactersMax. */
  isCut: boolean
}

/**
 * Turns the escape sequences of a log line into pieces: colours and styles (SGR) into classes, links (OSC 8) into addresses, all
 * others into nothing. Control characters and others that cannot be seen become text such as `⟨U+202E⟩`.
 *
 * Takes time in proportion to the text, whatever is in it. charactersMax: the pieces hold no more UTF-16 code units than that.
 */
export function readEscapes(text: string, charactersMax = Number.POSITIVE_INFINITY): Escapes {
  const source = withoutOverwritten(text.replace(/[\r\n]+$/, ''))
  const pieces = new Pieces()
  const unseen = new RegExp(UNSEEN)
  let from = 0
  while (from < source.length && pieces.characters <= charactersMax) {
    unseen.lastIndex = from
    const found = unseen.exec(source)
    const end = found?.index ?? source.length
    pieces.add(source.slice(from, Math.min(end, from + charactersMax + 1)))
    if (!found) break
    from = end + found[0].length
    const taken = found[0] === ESCAPE ? takeSequence(pieces, source, from) : undefined
    if (taken === undefined) pieces.add(codePointText(found[0]), UNSEEN_CLASS)
    else from += taken
  }
  return pieces.characters > charactersMax
    ? { pieces: cutPieces(pieces.list, charactersMax), isCut: true }
    : { pieces: pieces.list, isCut: false }
}

/** The first pieces, as many as hold charactersMax UTF-16 code units, or one less, since no character is cut in two. */
function cutPieces(pieces: readonly Piece[], charactersMax: number): Piece[] {
  const kept: Piece[] = []
  let left = charactersMax
  for (const piece of pieces) {
    if (left <= 0) break
    const text = piece.text.slice(0, left)
    kept.push({ ...piece, text: piece.text.length > left ? text.replace(/[\ud800-\udbff]$/, '') : text })
    left -= piece.text.length
  }
  return kept
}

/** Anything that makes readEscapes return more than the text itself. */
const NEEDS_READING = /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2028\u2029]/u

/** The text of a log line as it is shown, without colours and links. Takes time in proportion to the text. */
export const plainText = (text: string): string =>
  NEEDS_READING.test(text)
    ? readEscapes(text)
        .pieces.map((piece) => piece.text)
        .join('')
    : text
