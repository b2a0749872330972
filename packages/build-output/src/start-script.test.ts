import { describe, expect, test } from 'vitest'
import { chooseStart, explainStart } from './start-script.ts'

const chosenOf = (scripts: Record<string, unknown>, files: readonly string[], main?: unknown) => {
  const chosen = chooseStart({ scripts, main }, (path) => files.includes(path))
  return chosen && [chosen.name, chosen.file, chosen.isPlain]
}

describe('the script that starts a server is', () => {
  test.each<[string, Record<string, unknown>, unknown]>([
    [
      'start, if its file is there',
      { start: 'node dist/main.js', 'start:prod': 'node dist/main' },
      ['start', 'dist/main.js', true],
    ],
    ['start, by the name without its ending', { start: 'node ./dist/main' }, ['start', 'dist/main.js', true]],
    [
      'start:prod, if start is no such command',
      { start: 'nest start', 'start:prod': 'node dist/main' },
      ['start:prod', 'dist/main.js', true],
    ],
    [
      'start:prod, if the file of start is not there',
      { start: 'node src/main.js', 'start:prod': 'node dist/main' },
      ['start:prod', 'dist/main.js', true],
    ],
    [
      'start:production',
      { start: 'vite', 'start:production': 'node dist/main' },
      ['start:production', 'dist/main.js', true],
    ],
    [
      'serve:ssr:… of Angular',
      { start: 'ng serve', 'serve:ssr:shop': 'node dist/main.js' },
      ['serve:ssr:shop', 'dist/main.js', true],
    ],
    [
      'a command with variables and flags',
      { start: 'tsx src', 'start:prod': 'NODE_ENV=production node --enable-source-maps dist/main.js' },
      ['start:prod', 'dist/main.js', false],
    ],
    [
      'start, whatever it is, if no other runs a file',
      { start: 'nest start', 'start:prod': 'node gone.js' },
      ['start', undefined, false],
    ],
    ['none without a script', {}, undefined],
    ['none if start:prod is no text', { 'start:prod': ['node', 'dist/main.js'] }, undefined],
    ['none if the file of start:prod is not there, and there is no start', { 'start:prod': 'node gone.js' }, undefined],
    ['not one that watches', { start: 'node --watch dist/main.js' }, ['start', undefined, false]],
    ['not one that does more than to run a file', { start: 'tsc && node dist/main.js' }, ['start', undefined, false]],
    [
      'not one of the prototype',
      { start: 'x', ['__proto__']: { 'start:prod': 'node dist/main' } },
      ['start', undefined, false],
    ],
  ])('%s', (_, scripts, expected) => {
    expect(chosenOf(scripts, ['dist/main.js'])).toEqual(expected)
  })

  test.each<[string, string, string | undefined]>([
    ['flags that load something first', 'node -r dotenv/config --import ./trace.js dist/main.js', 'dist/main.js'],
    ['arguments behind it', 'NODE_ENV=production node dist/main.js prod --port 3', 'dist/main.js'],
    ['a framework’s own program', 'react-router-serve ./dist/main.js', 'dist/main.js'],
    ['no file at all', 'node --version', undefined],
    ['a shell', 'node dist/main.js > log', undefined],
    ['a folder above package.json', 'node ../dist/main.js', undefined],
    ['an absolute path', 'node /dist/main.js', undefined],
    ['more than 4,096 characters', `node dist/main.js${' a'.repeat(2_100)}`, undefined],
  ])('is found in a command with %s', (_, command, file) => {
    expect(chosenOf({ start: command }, ['dist/main.js', '../dist/main.js', '/dist/main.js'])?.[1]).toBe(file)
  })

  test('`node .` starts the main module that package.json names, else index.js', () => {
    const files = ['index.js', 'dist/main.js']
    expect(chosenOf({ start: 'node .' }, files, './dist/main')).toEqual(['start', 'dist/main.js', true])
    expect(chosenOf({ start: 'node ./' }, files, 'gone.js')).toEqual(['start', 'index.js', true])
    expect(chosenOf({ start: 'node .' }, files, 7)).toEqual(['start', 'index.js', true])
  })

  test.each([
    'node' + ' --a'.repeat(1_000) + ' ;',
    'node ' + '-'.repeat(4_000) + ' !',
    `${'A=b '.repeat(1_000)}node`,
    'vite ' + 'a '.repeat(50_000) + '|',
  ])('is sought to the end of a command that was made to take long, case %#', (command) => {
    expect(chosenOf({ start: command }, ['dist/main.js'])).toEqual(['start', undefined, false])
    expect(explainStart({ name: 'start', command }, ['EROFS'])).toContain('cannot be changed')
  })

  test('the chosen start script names those that were passed over', () => {
    const scripts = { start: 'nest start', 'start:prod': 'node gone', 'start:production': 'node dist/main' }
    expect(chooseStart({ scripts }, (path) => path === 'dist/main.js')?.passedOver).toEqual([
      { name: 'start', command: 'nest start' },
      { name: 'start:prod', command: 'node gone' },
    ])
  })
})

describe('a start script that cannot work', () => {
  test.each([
    'ng serve',
    'vite',
    'vite --port 3000',
    'next dev',
    'nodemon src/index.js',
    'tsx watch src/index.ts',
    'react-scripts start',
    'nest start --watch',
    'webpack serve',
    'node --watch index.js',
    'docusaurus start',
  ])('is a development server: %s', (command) => {
    expect(explainStart({ name: 'start', command }, [])).toContain(
      `\`npm start\` ran \`${command}\`, which is a development server`,
    )
  })

  test.each(['tsc && node dist/main.js', 'nest start', 'npm run build && node dist/main.js', 'rimraf dist && tsc'])(
    'compiles: %s',
    (command) => {
      expect(explainStart({ name: 'start:prod', command }, [])).toContain(
        `\`npm run start:prod\` ran \`${command}\`, which compiles when it starts`,
      )
    },
  )

  test('a start script that printed EROFS is explained, whatever its command is', () => {
    const line = "Error: EROFS: read-only file system, mkdir '/var/task/cache'"
    expect(explainStart({ name: 'start', command: 'run-it' }, ['starting', line])).toBe(
      '`npm start` ran `run-it`, which writes files below its own folder. The files of a deployment cannot be changed: let the build script compile, and add a script that only starts what it made, "start:prod": "node <file that listens on PORT>".',
    )
  })

  test.each([
    'node index.js',
    'next start',
    'vite preview',
    'fastify start app.js',
    'remix-serve build',
    'tsx src/index.ts',
  ])('is another matter: %s', (command) => {
    expect(explainStart({ name: 'start', command }, ['Error: no database'])).toBeUndefined()
  })

  test('the advice on a start script names the server that the build made, else the file that the script would have run', () => {
    const start = { name: 'start', command: 'tsc && node dist/main.js' }
    expect(explainStart(start, [], ['dist/server.js'])).toContain('"start:prod": "node dist/server.js"')
    expect(explainStart(start, [])).toContain('"start:prod": "node dist/main.js"')
  })
})
