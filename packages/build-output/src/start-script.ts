import { posix } from 'node:path'

/** A script of package.json that may start a server. */
export interface StartScript {
  name: string
  command: string
}

const OTHER_NAMES = ['start:prod', 'start:production']
const SERVE_SSR = /^serve:ssr:/
/** A longer one is left to the shell. */
const COMMAND_LENGTH_MAX = 4_096

/** The scripts of package.json that may start its server, in the order in which they are tried. */
function listStartScripts(scripts: Readonly<Record<string, unknown>>): StartScript[] {
  const names = ['start', ...OTHER_NAMES, ...Object.keys(scripts).filter((name) => SERVE_SSR.test(name))]
  return names.flatMap((name) => {
    const command = scripts[name]
    return typeof command === 'string' && command.trim() !== '' ? [{ name, command }] : []
  })
}

/** Programs that run a file: Node, and what frameworks have for it. */
const RUNNERS = new Set(['node', 'react-router-serve', 'remix-serve'])
const ASSIGNMENT = /^[A-Za-z_]\w*=/
/** Flags of Node that take the next word. */
const TAKES_WORD = new Set([
  '-r',
  '--require',
  '--import',
  '--loader',
  '--experimental-loader',
  '-C',
  '--conditions',
  '--env-file',
])
/** Flags by which Node runs something else than a file, or the file again and again. */
const RUNS_OTHER = /^(?:-[epci]|--(?:eval|print|check|interactive|run|watch|test)(?:[-=].*)?)$/
/** Whatever needs a shell. */
const SHELL = /[;&|`$<>()"'\\\n]/

/** The words of a command without variables in front. */
function wordsOf(command: string): string[] {
  const words = command.trim().split(/\s+/)
  let at = words[0] === 'cross-env' ? 1 : 0
  while (ASSIGNMENT.test(words[at] ?? '')) at++
  return words.slice(at)
}

interface Program {
  /** As it is written. */
  file: string
  /** True if the command is `node <file>` and nothing else. */
  isPlain: boolean
}

/**
 * The program of a command, if all it does is to run one by Node: `node dist/main`, with variables and flags before it and arguments
 * behind.
 */
function programOf(command: string): Program | undefined {
  if (command.length > COMMAND_LENGTH_MAX || SHELL.test(command.trim())) return undefined
  const [runner = '', ...words] = wordsOf(command)
  if (!RUNNERS.has(runner)) return undefined
  let at = 0
  for (; words[at]?.startsWith('-') === true; at++) {
    const word = words[at] ?? ''
    if (RUNS_OTHER.test(word)) return undefined
    if (TAKES_WORD.has(word)) at++
  }
  const file = words[at]
  return file === undefined
    ? undefined
    : { file, isPlain: command.trim().split(/\s+/).length === 2 && runner === 'node' }
}

/** The paths that Node tries for a program, below the folder of package.json. main: of that package.json. */
function pathsOf(file: string, main: unknown): string[] {
  const path = posix.normalize(file).replace(/\/$/, '')
  if (path.startsWith('/') || path === '..' || path.startsWith('../')) return []
  if (path !== '.') return [path, `${path}.js`, `${path}/index.js`]
  return [...(typeof main === 'string' && posix.normalize(main) !== '.' ? pathsOf(main, undefined) : []), 'index.js']
}

/** How a server of package.json is started. */
export interface ChosenStart extends StartScript {
  /** The program that it runs by Node, if it is there. */
  file: string | undefined
  /** True if it does nothing but run that program. */
  isPlain: boolean
  /** Scripts that were tried before it, and name no program that is there. */
  passedOver: StartScript[]
}

/**
 * Chooses the script that starts a server: the first that only runs a file by Node that is there, of `start`, `start:prod`,
 * `start:production` and `serve:ssr:*`; else `start`. has: whether a file is there, by its path below package.json.
 */
export function chooseStart(
  { scripts = {}, main }: { scripts?: Readonly<Record<string, unknown>> | undefined; main?: unknown },
  has: (path: string) => boolean,
): ChosenStart | undefined {
  const listed = listStartScripts(scripts)
  for (const [n, script] of listed.entries()) {
    const program = programOf(script.command)
    const file = program && pathsOf(program.file, main).find(has)
    if (file !== undefined)
      return { ...script, file, isPlain: program?.isPlain === true, passedOver: listed.slice(0, n) }
  }
  const [first] = listed
  return first && first.name === 'start' ? { ...first, file: undefined, isPlain: false, passedOver: [] } : undefined
}

/** Programs that build when they start, and serve what they built to their developer, by their first words. */
const DEVELOPMENT =
  /^(?:(?:ng|vue-cli-service|webpack|rsbuild|gridsome) serve|(?:nodemon|ts-node-dev|tsnd|node-dev|webpack-dev-server)|(?:react-app-rewired|react-scripts|craco|docusaurus) start|gatsby develop|(?:next|nuxt|nuxi|astro|remix|react-router|waku|vinxi|vite|rsbuild|expo|wrangler|netlify|vercel) dev|(?:tsx|bun) watch)(?: |$)/
/** Programs that do so unless their second word says something else. */
const DEVELOPMENT_ALONE = /^(?:vite|snowpack|parcel)(?!\s+(?:build|preview|optimize))(?: |$)/
/** Programs that write what they compile. */
const COMPILING =
  /^(?:(?:tsc|tsup|tsdown|esbuild|swc|babel|rollup|webpack|rimraf)|nest (?:start|build)|(?:ng|vite|next|nuxt|nuxi|astro|vinxi|remix|react-router|waku) build|(?:npm|pnpm|yarn)(?: run)? build)(?: |$)/
/** Programs that serve a folder of pages. */
const SERVES_PAGES =
  /^(?:(?:vite|astro|docusaurus|waku) preview|docusaurus serve|serve|http-server|sirv|live-server)(?: |$)/
/** What only calls the next word. */
const CALLING = /^(?:npx|pnpm exec|pnpm dlx|yarn dlx|pnpx|bunx|exec)(?: --yes| -y)* (?:@[\w.-]+\/)?/
const EXAMINED = 1_000

/** The programs of a command, each with its words: `tsc && node .` has two. */
const partsOf = (command: string): string[] =>
  command
    .slice(0, EXAMINED)
    .split(/&&|\|\||[;|\n]/)
    .map((part) => wordsOf(part).join(' ').replace(CALLING, ''))

/** What a command does that no deployment can do: undefined if nothing tells. */
function habitOf(command: string): 'develops' | 'compiles' | undefined {
  const parts = partsOf(command)
  const isWatching = (part: string): boolean => part.split(' ').some((word) => /^--(?:watch|serve)\b/.test(word))
  if (parts.some((part) => DEVELOPMENT.test(part) || DEVELOPMENT_ALONE.test(part) || isWatching(part)))
    return 'develops'
  return parts.some((part) => COMPILING.test(part)) ? 'compiles' : undefined
}

/** Whether a start script shows pages to their developer, instead of being a server of its own. */
export const isForPages = ({ command }: StartScript): boolean =>
  habitOf(command) === 'develops' || partsOf(command).some((part) => SERVES_PAGES.test(part))

/**
 * Explains why a start script cannot work where files cannot be changed, and which script to write instead: for one that compiles or
 * is a development server, by its command or by what it printed. made: files of the build that look like servers. Returns undefined
 * if the reason is another one.
 */
export function explainStart(
  { name, command }: StartScript,
  printed: readonly string[],
  made: readonly string[] = [],
): string | undefined {
  const wrote = printed.some((line) => /EROFS|read-only file system/i.test(line))
  const habit = habitOf(command)
  if (!wrote && habit === undefined) return undefined
  const why =
    habit === 'develops'
      ? 'is a development server: it builds when it starts'
      : habit === 'compiles'
        ? 'compiles when it starts'
        : 'writes files below its own folder'
  const started = made[0] ?? programOf(partsOf(command).at(-1) ?? '')?.file ?? '<file that listens on PORT>'
  return `${scriptCall(name)} ran \`${command.trim().slice(0, 200)}\`, which ${why}. The files of a deployment cannot be changed: let the build script compile, and add a script that only starts what it made, "start:prod": "node ${started.slice(0, 200)}".`
}

/** A script as people type it. */
const scriptCall = (name: string): string => (name === 'start' ? '`npm start`' : `\`npm run ${name}\``)
