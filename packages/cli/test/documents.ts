import { readFile } from 'node:fs/promises'
import { type Manifest, manifestOf } from '../src/manifest.ts'
import { createProgram, typedLine } from '../src/program.ts'

/** What is written, relative to the repository, with the template that it is written from. */
const templates = {
  'docs/cli.md': 'cli.md',
  'packages/cli/agents.md': 'agents.md',
  'packages/cli/llms.txt': 'llms.md',
} as const

type CommandOf = Manifest['commands'][number]

export type DocumentPath = keyof typeof templates

const templateUrl = (name: string): URL => new URL(`documents/${name}`, import.meta.url)

const PLACE = /^<!-- place: (.+) -->$/gm

type Row = readonly [string, string]
const tableOf = (rows: readonly Row[]): string =>
  ['| | |', '|---|---|', ...rows.map(([name, text]) => `| ${name} | ${text.replaceAll('|', String.raw`\|`)} |`)].join(
    '\n',
  )

const code = (text: string): string => `\`${text}\``

function argumentWord({ name, isRequired, isRepeatable }: CommandOf['arguments'][number]): string {
  const word = `${name}${isRepeatable ? '...' : ''}`
  return isRequired ? `<${word}>` : `[${word}]`
}

/** A command with its arguments, such as `env set <key> [value]`. */
const synopsisOf = ({ command, arguments: args }: CommandOf): string => [command, ...args.map(argumentWord)].join(' ')

const flagRows = (flags: Manifest['globalFlags']): Row[] =>
  flags.map(({ flags: typed, description, choices, default: value }) => [
    code(typed),
    [
      description,
      choices.length > 0 && `one of ${choices.map(code).join(', ')}`,
      typeof value === 'string' && `default: ${code(value)}`,
    ]
      .filter(Boolean)
      .join('; '),
  ])

const anchorOf = (command: string): string => command.replaceAll(' ', '-')

function sectionOf(each: CommandOf): string {
  const { command, description, arguments: args, flags, examples } = each
  const argumentRows = args.map((argument): Row => [code(argumentWord(argument)), argument.description])
  const rows = [...argumentRows, ...flagRows(flags)]
  const lines = examples.map((example) => `# ${example.does}\n${typedLine(example.command)}`)
  return [
    `### ${command}`,
    `${description}.`,
    code(typedLine(synopsisOf(each))),
    ...(rows.length > 0 ? [tableOf(rows)] : []),
    `\`\`\`sh\n${lines.join('\n')}\n\`\`\``,
  ].join('\n\n')
}

const WIDTH = 138

/** Text in lines that are no longer than those of the templates. */
const inLines = (text: string): string => text.replace(new RegExp(`(.{1,${WIDTH}})(?: |$)`, 'g'), '$1\n').trimEnd()

/** What stands at the marked places of templates. */
const places: Record<string, (manifest: Manifest) => string> = {
  'exit codes': ({ exitCodes }) =>
    [
      '| Exit code | Meaning | `reason` |',
      '|---|---|---|',
      ...exitCodes.map(
        ({ code: exit, meaning, reasons }) => `| ${exit} | ${meaning} | ${reasons.map(code).join(', ')} |`,
      ),
    ].join('\n'),
  'global flags': ({ globalFlags }) => tableOf(flagRows(globalFlags)),
  'table of commands': ({ commands }) =>
    tableOf(commands.map(({ command, description }) => [`[${command}](#${anchorOf(command)})`, description])),
  'list of commands': ({ commands }) =>
    commands.map((each) => `- ${code(synopsisOf(each))}: ${each.description}`).join('\n'),
  'names of commands': ({ commands }) =>
    inLines(`Its commands: ${commands.map(({ command }) => code(command)).join(', ')}.`),
  reference: ({ commands }) => commands.map(sectionOf).join('\n\n'),
}

/** The documents, by path. Throws for a marked place that is unknown. */
export async function writtenDocuments(): Promise<Map<DocumentPath, string>> {
  const manifest = manifestOf(createProgram(async () => {}))
  const written = new Map<DocumentPath, string>()
  for (const [path, name] of Object.entries(templates) as [DocumentPath, string][]) {
    const template = await readFile(templateUrl(name), 'utf8')
    const text = template.replace(PLACE, (_, place: string) => {
      const write = places[place]
      if (!write) throw new Error(`${name} has the place "${place}": expected one of ${Object.keys(places).join(', ')}`)
      return write(manifest)
    })
    written.set(path, text)
  }
  return written
}
