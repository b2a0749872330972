import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import type { Context } from '../context.ts'
import { manifestOf } from '../manifest.ts'
import { type Outcome, refuse } from '../outcome.ts'
import { nearest } from '../values.ts'

/** The help of a command as text, or everything that there is to know of it as JSON. */
export function help(context: Context, program: CommandUnknownOpts, words: readonly string[]): Outcome {
  let command = program
  for (const word of words) {
    const found = command.commands.find((each) => each.name() === word)
    if (!found) {
      const meant = nearest(
        word,
        command.commands.map((each) => each.name()),
      )
      refuse(`There is no command "${words.join(' ')}"${meant ? ` (Did you mean ${meant}?)` : ''}`)
    }
    command = found
  }
  if (context.output.isJson) return { data: manifestOf(command) }
  let text = ''
  command.configureOutput({ writeOut: (part) => void (text += part) }).outputHelp()
  return { data: null, text: text.trimEnd() }
}
