import type { OutputManifest } from '@platform/build-output/manifest'

/** Where a project comes from: a generator that carries its templates, or a folder of ours that looks like what one leaves. */
type Source =
  | {
      /** A package of npm with its exact version. It makes the folder `app` where it runs, as `args` ask, with spaces between. */
      generator: string
      args: string
    }
  | {
      /** A folder of `test/starters`. */
      fixture: string
    }

/** A GET, the status of its answer, and a text in it. A RegExp finds the path in the first answer: its first group. */
type StarterRequest = readonly [path: string | RegExp, status: number, text: string]

/** A project as people have it, and what the platform makes of it. */
export interface Starter {
  /** Of its folder and its recording. */
  id: string
  name: string
  source: Source
  /** What writes the lockfile; none: it is there already, or there is to be none. */
  lockedBy?: 'npm' | 'pnpm@10.34.9'
  /** npm chooses from what was published before, for a framework whose newest packages do not fit each other. */
  lockedOn?: string
  /** A lockfile that was written before, in `test/starters/locks`, and its name in the project. */
  lockfile?: readonly [file: string, name: string]
  rootDirectory?: string
  expected: OutputManifest['kind'] | { refused: RegExp }
  /** Not sent to a project that is refused. */
  requests: readonly [StarterRequest, StarterRequest, StarterRequest]
  /** WARN lines of the build log. A line that another project expects has to be absent. */
  warnings: readonly RegExp[]
  /** The others are built in the drill. */
  isInCi: boolean
}

/** A day on which the registry had all packages of a framework that are published together. */
const CONSISTENT = '2026-09-23T20:00:00Z'

const NO_LOCKFILE = /There is no lockfile of npm, pnpm or yarn/
const IGNORED_SCRIPTS = /install scripts.* esbuild/
const NOT_FOUND = 'This page does not exist'

/** The projects by which the platform is judged: each is served as its makers meant it, or refused with what to do. */
export const starters: readonly Starter[] = [
  {
    id: 'vite-react',
    name: 'Vite with React and TypeScript',
    source: { generator: 'create-vite@9.3.0', args: 'app --template react-ts --no-interactive' },
    lockedBy: 'npm',
    expected: 'static',
    requests: [
      ['/', 200, '<div id="root"></div>'],
      [/src="(\/assets\/[^"]+\.js)"/, 200, 'Count is '],
      ['/nothing', 404, NOT_FOUND],
    ],
    warnings: [],
    isInCi: false,
  },
  {
    id: 'vite-vue',
    name: 'Vite with Vue and a lockfile of Yarn 1',
    source: { generator: 'create-vite@9.3.0', args: 'app --template vue-ts --no-interactive' },
    lockfile: ['vite-vue.yarn.lock', 'yarn.lock'],
    expected: 'static',
    requests: [
      ['/', 200, '<div id="app"></div>'],
      [/src="(\/assets\/[^"]+\.js)"/, 200, 'Count is '],
      ['/nothing', 404, NOT_FOUND],
    ],
    warnings: [],
    isInCi: true,
  },
  {
    id: 'vue-router',
    name: 'Vue with a router and a store',
    source: { generator: 'create-vue@3.24.0', args: 'app --ts --router --pinia' },
    lockedBy: 'npm',
    expected: 'static',
    requests: [
      ['/', 200, '<div id="app"></div>'],
      [/src="(\/assets\/[^"]+\.js)"/, 200, '/about'],
      ['/about', 404, NOT_FOUND],
    ],
    warnings: [],
    isInCi: false,
  },
  {
    id: 'next',
    name: 'Next.js',
    source: {
      generator: 'create-next-app@16.4.3',
      // Without `--empty` its page fetches fonts from Google, which builds with BUILD_EGRESS=registry cannot.
      args: 'app --ts --app --eslint --tailwind --src-dir --import-alias @/* --empty --yes --skip-install --disable-git --use-npm',
    },
    lockedBy: 'npm',
    expected: 'server',
    requests: [
      ['/', 200, 'Hello world!'],
      [/src="(\/_next\/static\/chunks\/[^"]+\.js)"/, 200, 'TURBOPACK'],
      ['/nothing', 404, 'This page could not be found'],
    ],
    warnings: [],
    isInCi: false,
  },
  {
    id: 'sveltekit',
    name: 'SvelteKit with adapter-auto',
    source: {
      generator: 'sv@0.17.1',
      args: 'create app --template minimal --types ts --no-add-ons --no-install',
    },
    lockedBy: 'npm',
    expected: 'build-output',
    requests: [
      ['/', 200, 'Welcome to SvelteKit'],
      ['/robots.txt', 200, 'allow crawling'],
      ['/nothing', 404, 'Not Found'],
    ],
    warnings: [],
    isInCi: false,
  },
  {
    id: 'nuxt',
    name: 'Nuxt 4',
    source: { fixture: 'nuxt' },
    lockedBy: 'npm',
    expected: 'build-output',
    requests: [
      ['/', 200, 'Welcome to Nuxt!'],
      ['/people/ana', 200, 'Hello ana'],
      ['/nothing', 404, 'Page not found'],
    ],
    warnings: [],
    isInCi: false,
  },
  {
    id: 'nitro-2',
    name: 'Nitro 2',
    source: { fixture: 'nitro-2' },
    lockedBy: 'npm',
    expected: 'build-output',
    requests: [
      ['/', 200, 'Start by editing'],
      ['/people/ana', 200, '"ana"'],
      ['/nothing', 404, 'Cannot find any route matching /nothing'],
    ],
    warnings: [],
    isInCi: false,
  },
  {
    id: 'solid-start',
    name: 'SolidStart 2',
    source: { fixture: 'solid-start' },
    lockedBy: 'npm',
    expected: 'build-output',
    requests: [
      ['/', 200, 'Hello world!'],
      ['/people/ana', 200, 'Hello ana'],
      ['/nothing', 404, 'Page Not Found'],
    ],
    warnings: [],
    isInCi: false,
  },
  {
    id: 'waku',
    name: 'Waku',
    source: {
      generator: 'create-waku@0.13.0-1.0.0-rc.1-0',
      args: '--project-name app --skip-install',
    },
    lockedBy: 'npm',
    expected: 'build-output',
    requests: [
      ['/', 200, 'Waku'],
      ['/about', 200, 'About Waku'],
      ['/nothing', 404, '404 Not Found'],
    ],
    warnings: [],
    isInCi: false,
  },
  {
    id: 'react-router',
    name: 'React Router 7',
    source: { fixture: 'react-router' },
    lockedBy: 'npm',
    expected: 'server',
    requests: [
      ['/', 200, 'Welcome to React Router!'],
      ['/people/ana', 200, 'Hello ana'],
      ['/nothing', 404, 'The requested page could not be found.'],
    ],
    warnings: [],
    isInCi: false,
  },
  {
    id: 'astro-node',
    name: 'Astro with its adapter for Node and a lockfile of pnpm 10',
    source: { fixture: 'astro-node' },
    lockedBy: 'pnpm@10.34.9',
    expected: 'server',
    requests: [
      ['/', 200, '<h1>Astro</h1>'],
      ['/visits/ana', 200, 'Visited by ana'],
      ['/nothing', 404, 'Not Found'],
    ],
    warnings: [IGNORED_SCRIPTS],
    isInCi: false,
  },
  {
    id: 'hono',
    name: 'Hono in TypeScript on its server for Node',
    source: { fixture: 'hono' },
    lockedBy: 'npm',
    expected: 'server',
    requests: [
      ['/', 200, 'Hello Hono!'],
      ['/users/7', 200, '"7"'],
      ['/nothing', 404, '404 Not Found'],
    ],
    warnings: [],
    isInCi: false,
  },
  {
    id: 'hard-coded-port',
    name: 'Express 5 in TypeScript on a hard-coded port',
    source: { fixture: 'hard-coded-port' },
    lockedBy: 'npm',
    expected: { refused: /listens on 8080 and not on PORT.*let it listen on process\.env\.PORT/ },
    requests: [
      ['/', 200, 'Express + TypeScript Server'],
      ['/users/7', 200, '"7"'],
      ['/nothing', 404, 'Cannot GET /nothing'],
    ],
    warnings: [],
    isInCi: false,
  },
  {
    id: 'eleventy',
    name: 'Eleventy without a lockfile',
    source: { fixture: 'eleventy' },
    expected: 'static',
    requests: [
      ['/', 200, 'Hello from Eleventy'],
      ['/about/', 200, 'About this site'],
      ['/nothing', 404, NOT_FOUND],
    ],
    warnings: [NO_LOCKFILE],
    isInCi: false,
  },
  {
    id: 'express-generator',
    name: 'express-generator',
    source: { generator: 'express-generator@4.16.1', args: 'app --view=pug' },
    lockedBy: 'npm',
    expected: 'server',
    requests: [
      ['/', 200, 'Welcome to Express'],
      ['/users', 200, 'respond with a resource'],
      ['/nothing', 404, 'Not Found'],
    ],
    warnings: [],
    isInCi: true,
  },
  {
    id: 'angular-ssr',
    name: 'Angular with SSR',
    source: {
      generator: '@angular/cli@22.1.8',
      args: 'new app --ssr --defaults --style css --skip-install --skip-git',
    },
    lockedBy: 'npm',
    lockedOn: CONSISTENT,
    expected: 'server',
    requests: [
      ['/', 200, 'Hello, app'],
      ['/index.csr.html', 200, '<app-root>'],
      ['/nothing', 404, 'Cannot GET /nothing'],
    ],
    warnings: [],
    isInCi: false,
  },
  {
    id: 'tanstack-start',
    name: 'TanStack Start without a plugin for a server',
    source: {
      generator: '@tanstack/cli@0.71.0',
      args: 'create app --framework React --package-manager npm --non-interactive --no-install --no-git --no-intent --no-toolchain',
    },
    lockedBy: 'npm',
    expected: { refused: /TanStack Start.*add `nitro\(\)`/s },
    requests: [
      ['/', 200, 'TanStack'],
      ['/about', 200, 'About'],
      ['/nothing', 404, 'Not Found'],
    ],
    warnings: [],
    isInCi: false,
  },
  {
    id: 'turbo-workspace',
    name: 'A workspace of pnpm 9 with turbo',
    source: { fixture: 'turbo-workspace' },
    rootDirectory: 'apps/web',
    expected: 'static',
    requests: [
      ['/', 200, '<div id="a"></div>'],
      [/src="(\/assets\/[^"]+\.js)"/, 200, ' from ui'],
      ['/nothing', 404, NOT_FOUND],
    ],
    warnings: [],
    isInCi: true,
  },
  {
    id: 'docusaurus',
    name: 'Docusaurus',
    source: {
      generator: 'create-docusaurus@3.10.2',
      args: 'app classic --typescript --skip-install --package-manager npm',
    },
    lockedBy: 'npm',
    lockedOn: CONSISTENT,
    expected: 'static',
    requests: [
      ['/', 200, 'My Site'],
      ['/docs/intro/', 200, 'Tutorial Intro'],
      ['/nothing', 404, 'Page Not Found'],
    ],
    warnings: [],
    isInCi: false,
  },
  {
    id: 'hoisted-server',
    name: 'A server in a workspace of npm, which hoists its packages',
    source: { fixture: 'hoisted-server' },
    rootDirectory: 'apps/api',
    expected: 'server',
    requests: [
      ['/', 200, 'Hello api, from a package of the workspace'],
      ['/greet/ana', 200, 'Hello ana, from a package of the workspace'],
      ['/nothing', 404, 'Route GET:/nothing not found'],
    ],
    warnings: [],
    isInCi: true,
  },
  {
    id: 'start-compiles',
    name: 'A TypeScript server whose start script compiles',
    source: { fixture: 'start-compiles' },
    expected: 'server',
    requests: [
      ['/', 200, 'Hello World!'],
      ['/cats/7', 200, '"7"'],
      ['/nothing', 404, 'Cannot GET /nothing'],
    ],
    warnings: [],
    isInCi: true,
  },
  {
    id: 'pnpm-ignored-builds',
    name: 'Vite with esbuild and a lockfile of pnpm 10',
    source: { fixture: 'pnpm-ignored-builds' },
    expected: 'static',
    requests: [
      ['/', 200, '<h1>hi</h1>'],
      ['/index', 308, ''],
      ['/nothing', 404, NOT_FOUND],
    ],
    warnings: [IGNORED_SCRIPTS],
    isInCi: true,
  },
]
