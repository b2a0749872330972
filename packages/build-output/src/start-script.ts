/** A script of package.json that may start a server. */
export interface StartScript {
  name: string
  command: string
}

const OTHER_NAMES = ['start:prod', 'start:production']
const SERVE_SSR = /^serve:ssr:/

/** The scripts of package.json that may start its server, in the order in which they are tried. */
export function listStartScripts(scripts: Readonly<Record<string, unknown>>): StartScript[] {
  const names = ['start', ...OTHER_NAMES, ...Object.keys(scripts).filter((name) => SERVE_SSR.test(name))]
  return names.flatMap((name) => {
    const command = scripts[name]
    return typeof command === 'string' && command.trim() !== '' ? [{ name, command }] : []
  })
}

/** Variables and flags, then one file: what a command is that only starts a program. */
const NODE_COMMAND =
  /^(?:(?:cross-env\s+)?(?:[A-Za-z_]\w*=[^\s;&|`$]*\s+)+)?node((?:\s+--?[\w-]+(?:=[^\s;&|`$]+)?)*)\s+(?:\.\/)?([\w@./-]+)$/
/** Flags of Node that take the next word, or run something else than a file. */
const OTHER_FLAGS =
  /\s(?:-[reCpc]|--(?:require|import|loader|eval|print|watch\S*|test\S*|check|run|conditions))(?:\s|$)/

/**
 * The files that a command may mean, as Node resolves them, if all it does is to run one by Node (`node dist/main`, with variables
 * and flags before it); none otherwise. isPlain: nothing but the file.
 */
function filesOfCommand(command: string): { files: string[]; isPlain: boolean } {
  const trimmed = command.trim()
  const [, flags = '', file = ''] = NODE_COMMAND.exec(trimmed) ?? []
  if (file === '' || OTHER_FLAGS.test(`${flags} `)) return { files: [], isPlain: false }
  return {
    files: [file, `${file}.js`, `${file.replace(/\/$/, '')}/index.js`],
    isPlain: /^node\s+\S+$/.test(trimmed),
  }
}

/** How a server of package.json is started. */
export interface ChosenStart extends StartScript {
  /** The program that it runs by Node, if it is there. */
  file: string | undefined
  /** True if it does nothing but run that program. */
  isPlain: boolean
  /** Scripts that were tried before it, and what is wrong with them. */
  passedOver: StartScript[]
}

/**
 * Chooses the script that starts a server: the first that only runs a file by Node that is there, of `start`, `start:prod`,
 * `start:production` and `serve:ssr:*`; else `start`. has: whether a file is there, by its path below package.json.
 */
export function chooseStart(
  scripts: Readonly<Record<string, unknown>>,
  has: (path: string) => boolean,
): ChosenStart | undefined {
  const listed = listStartScripts(scripts)
  for (const [n, script] of listed.entries()) {
    const { files, isPlain } = filesOfCommand(script.command)
    const file = files.find(has)
    if (file === undefined) continue
    return { ...script, file, isPlain, passedOver: listed.slice(0, n) }
  }
  const [first] = listed
  return first && first.name === 'start' ? { ...first, file: undefined, isPlain: false, passedOver: [] } : undefined
}

/** Programs that build when they start, and serve what they built to their developer. */
const DEVELOPMENT = [
  /\b(?:ng|vue-cli-service|webpack|rsbuild|parcel|gridsome) serve\b/,
  /\b(?:nodemon|ts-node-dev|tsnd|node-dev|webpack-dev-server|react-app-rewired start|react-scripts start|craco start|gatsby develop|eleventy --serve|docusaurus start|parcel(?! build)\b)/,
  /\b(?:next|nuxt|nuxi|astro|remix|react-router|waku|vinxi|vite|rsbuild|expo|wrangler|netlify|vercel) dev\b/,
  /\b(?:vite|snowpack)(?: serve)?(?:\s+(?!build|preview|optimize|ssr)\S+)*$/,
  /\b(?:tsx|bun|nest start|node) (?:--)?watch\b|--watch\b/,
]
/** Programs that write what they compile. */
const COMPILING =
  /\b(?:tsc|tsup|tsdown|esbuild|swc|babel|rollup|webpack|rimraf|nest (?:start|build)|ng build|(?:vite|next|nuxt|nuxi|astro|vinxi|remix|react-router|waku) build|(?:npm|pnpm|yarn)(?: run)? build)\b/

/** What a command does that no deployment can do: undefined if nothing tells. */
function habitOf(command: string): 'develops' | 'compiles' | undefined {
  if (DEVELOPMENT.some((pattern) => pattern.test(command.trim()))) return 'develops'
  return COMPILING.test(command) ? 'compiles' : undefined
}

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
  const started =
    made[0] ?? /\bnode\s+(?:\.\/)?([\w@./-]+)\s*$/.exec(command.trim())?.[1] ?? '<file that listens on PORT>'
  return `${scriptCall(name)} ran \`${command.trim().slice(0, 200)}\`, which ${why}. The files of a deployment cannot be changed: let the build script compile, and add a script that only starts what it made, "start:prod": "node ${started}".`
}

/** A script as people type it. */
const scriptCall = (name: string): string => (name === 'start' ? '`npm start`' : `\`npm run ${name}\``)
