import type { Writable } from 'node:stream'
import { confirm, isCancel, password, select, text } from '@clack/prompts'
import type { Context } from './context.ts'
import { interrupted } from './interrupted.ts'
import { inOneLine, visibleText } from './visible-text.ts'

/** Questions go to stderr: stdout belongs to the result. */
const streamsOf = ({ world, signal }: Context) => ({ input: world.stdin, output: world.stderr as Writable, signal })

/** Ctrl-C at a question ends the command. */
function answered<T>(answer: T): Exclude<T, symbol> {
  if (isCancel(answer)) throw interrupted(AbortSignal.abort('SIGINT'))
  return answer as Exclude<T, symbol>
}

const shown = (unsafe: string): string => inOneLine(visibleText(unsafe, false))

/** Returns the value of the choice. */
export async function askToChoose(
  context: Context,
  question: string,
  choices: readonly { value: string; label: string }[],
): Promise<string> {
  const options = choices.map(({ value, label }) => ({ value, label: shown(label) }))
  return answered(await select({ message: shown(question), options, ...streamsOf(context) }))
}

export async function askForText(context: Context, question: string, initialValue?: string): Promise<string> {
  const validate = (value: string | undefined) => (value?.trim() ? undefined : 'Type something')
  return answered(
    await text({
      message: shown(question),
      ...(initialValue !== undefined && { initialValue: shown(initialValue) }),
      validate,
      ...streamsOf(context),
    }),
  ).trim()
}

/** What is typed is not shown. */
export async function askForSecret(context: Context, question: string): Promise<string> {
  return answered(await password({ message: shown(question), ...streamsOf(context) }))
}

export async function askToConfirm(context: Context, question: string): Promise<boolean> {
  return answered(await confirm({ message: shown(question), initialValue: false, ...streamsOf(context) }))
}
