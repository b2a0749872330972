import { styleText } from 'node:util'
import { inOneLine, visibleJson, visibleText } from './visible-text.ts'
import type { World } from './world.ts'

export type Style = Parameters<typeof styleText>[0]

/** What a command says: its result on stdout, everything else on stderr. All of it goes through `visibleText`. */
export class Output {
  readonly isJson: boolean
  readonly #isQuiet: boolean
  readonly #world: World
  readonly #hasColours: { stdout: boolean; stderr: boolean }
  #hasProgress = false

  constructor(world: World, { json, quiet, color }: { json: boolean; quiet: boolean; color: boolean }) {
    const { NO_COLOR, FORCE_COLOR, TERM } = world.env
    const colours = (stream: 'stdout' | 'stderr'): boolean => {
      if (!color || NO_COLOR) return false
      if (FORCE_COLOR) return FORCE_COLOR !== '0'
      return world[stream].isTTY === true && TERM !== 'dumb'
    }
    this.isJson = json
    this.#isQuiet = quiet
    this.#world = world
    this.#hasColours = { stdout: colours('stdout'), stderr: colours('stderr') }
  }

  #write(stream: 'stdout' | 'stderr', text: string): void {
    this.progress('')
    const hasColours = this.#hasColours[stream]
    const shown = visibleText(text, hasColours)
    // Colours of others end with their text.
    this.#world[stream].write(`${shown}${hasColours && shown.includes('\u001b') ? '\u001b[0m' : ''}\n`)
  }

  /** Text in a colour, where stderr shows colours. */
  styled = (style: Style, text: string): string =>
    this.#hasColours.stderr ? styleText(style, text, { validateStream: false }) : text

  /** A part of the result, for people. */
  text(text: string): void {
    if (!this.isJson) this.#write('stdout', text)
  }

  /** An event of a stream: its JSON in a line, or the text. */
  event(event: { type: string; [member: string]: unknown }, text: string): void {
    if (this.isJson) this.#world.stdout.write(`${visibleJson(event)}\n`)
    else this.#write('stdout', text)
  }

  /** The document, which is the last that is said. */
  document(document: object): void {
    this.progress('')
    this.#world.stdout.write(`${visibleJson(document)}\n`)
  }

  /** Raw bytes of an answer. */
  async bytes(bytes: Uint8Array): Promise<void> {
    await new Promise<void>((resolve) => this.#world.stdout.write(bytes, () => resolve()))
  }

  /** What is good to know meanwhile. */
  note(text: string): void {
    if (!this.#isQuiet) this.#write('stderr', text)
  }

  /** What has to be read. */
  warn(text: string): void {
    this.#write('stderr', text)
  }

  /** A line that the next one takes the place of. Only terminals are shown it. */
  progress(text: string): void {
    if (this.#isQuiet || this.#world.stderr.isTTY !== true || this.#world.env['TERM'] === 'dumb') return
    if (text === '' && !this.#hasProgress) return
    this.#hasProgress = text !== ''
    this.#world.stderr.write(`\r\u001b[K${inOneLine(visibleText(text, false)).slice(0, 78)}`)
  }
}
