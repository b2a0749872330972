import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { unless } from '@platform/test-runner/task-meta'
import { type PackageRegistry, startPackageRegistry } from '@platform/testkit/package-registry'
import { findLimitObstacle, runLimited } from '@platform/sandbox/limited-program'
import { removeFolder } from '@platform/sandbox/remove-folder'
import { findTestObstacle } from '@platform/sandbox/test-obstacle'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readBuiltProject } from './built-project.ts'
import { listLeft, openTestBuilder, type TestBuilder } from './test-builds.ts'
import { type Files, GREETER, greetingProject, shellProject } from './test-projects.ts'

const obstacle = findTestObstacle(['bwrap', 'setpriv', 'prlimit', 'perl', 'unshare', 'find', 'du', 'tar'])
const MiB = 2 ** 20
const inNode = (code: string): Files => shellProject('node build.cjs', { 'build.cjs': code })
const read = (folder: string, source: string[] = []) =>
  readBuiltProject({
    folder,
    root: '',
    outputDirectory: undefined,
    isSource: (path) => source.includes(path),
    builtSince: 0,
    bytesMax: 2 ** 30,
  })

/** A stand-in for the package manager of a project that names version 8 of pnpm, as far as this test needs it. */
const OLD_PNPM = {
  name: 'pnpm',
  version: '8.15.0',
  files: {
    'package.json': JSON.stringify({ name: 'pnpm', version: '8.15.0', bin: { pnpm: 'pnpm.cjs' } }),
    'pnpm.cjs': `#!/usr/bin/env node
      console.log('pnpm 8 was called with', ...process.argv.slice(2))
      if (process.argv[2] === 'run') console.log(require('node:child_process').execSync('pnpm other', { encoding: 'utf8' }))`,
  },
}

describe('builds', unless(obstacle), () => {
  let registry: PackageRegistry
  let tested: TestBuilder
  const build: TestBuilder['build'] = (...args) => tested.build(...args)
  beforeAll(async () => {
    registry = await startPackageRegistry([GREETER, OLD_PNPM])
    tested = openTestBuilder('registry', [registry.url])
  })
  afterAll(async () => {
    await tested?.[Symbol.asyncDispose]()
    await registry?.close()
  })

  describe('package managers', () => {
    test.each(['npm', 'pnpm', 'yarn', 'berry'] as const)(
      '%s installs and builds, with development dependencies for production too, and again from what was kept',
      async (kind) => {
        const files = greetingProject(kind, registry)
        const variables = { NODE_ENV: 'production' }
        const countTarballs = (): number => registry.requests.filter((path) => path.endsWith('.tgz')).length
        const before = countTarballs()
        const cold = await build(files, { variables })
        expect([cold.failure, cold.plan.manager.kind], cold.output).toEqual([undefined, kind])
        expect(countTarballs()).toBe(before + 1)
        expect(existsSync(join(cold.project, 'installed'))).toBe(true)
        expect([...(await read(cold.project, Object.keys(files))).files.keys()]).toEqual(['dist/index.html'])

        const { signal } = new AbortController()
        const cache = await tested.builder.pack({ ...cold, bytesMax: 100 * MiB, signal })
        expect(cache).toBeDefined()
        const warm = await build(files, { variables, cache })
        expect(warm.failure, warm.output).toBeUndefined()
        expect(warm.lines).toEqual([])
        expect(countTarballs()).toBe(before + 1)
        expect(readFileSync(join(warm.project, 'dist/index.html'), 'utf8')).toBe('Hello')
      },
    )

    test('another version of one is fetched, and scripts find that version', async () => {
      const manifest = JSON.stringify({ scripts: { build: 'x' }, packageManager: 'pnpm@8.15.0' })
      const { output, failure } = await build({ 'package.json': manifest, '.npmrc': `registry=${registry.url}\n` })
      expect(failure, output).toBeUndefined()
      for (const args of ['install --no-frozen-lockfile', 'run build', 'other'])
        expect(output).toContain(`pnpm 8 was called with ${args}\n`)
    })

    test('another version of one is what the commands of vercel.json and their children find', async () => {
      const manifest = JSON.stringify({ packageManager: 'pnpm@8.15.0' })
      const vercel = JSON.stringify({ installCommand: 'pnpm own', buildCommand: `sh -c 'pnpm run ours'` })
      const files = { 'package.json': manifest, 'vercel.json': vercel, '.npmrc': `registry=${registry.url}\n` }
      const { output, failure } = await build(files)
      expect(failure, output).toBeUndefined()
      for (const args of ['own', 'run ours', 'other']) expect(output).toContain(`pnpm 8 was called with ${args}\n`)
    })

    test('the version of one of which only the major is known is printed', async () => {
      const files = {
        'package.json': JSON.stringify({ scripts: { build: 'x' } }),
        'pnpm-lock.yaml': "lockfileVersion: '6.0'\n",
      }
      const { output, failure } = await build({ ...files, '.npmrc': `registry=${registry.url}\n` })
      expect(failure, output).toBeUndefined()
      expect(output).toMatch(/^pnpm pnpm 8 was called with --version$/m)
    })

    test('the pinned one is not replaced by the one that packageManager names', async () => {
      const files = greetingProject('pnpm', registry)
      const manifest = { ...(JSON.parse(files['package.json'] ?? '') as object), packageManager: 'pnpm@12.0.0' }
      const { output, failure } = await build({ ...files, 'package.json': JSON.stringify(manifest) })
      expect(failure, output).toBeUndefined()
    })

    test('what was kept and cannot be unpacked is left out with a warning', async () => {
      const first = await build(shellProject('mkdir -p node_modules/a && echo kept > node_modules/a/file'))
      const cache = await tested.builder.pack({ ...first, bytesMax: MiB, signal: new AbortController().signal })
      expect(cache).toBeDefined()
      const whole = readFileSync(cache ?? '')
      const restored = await build(shellProject('cat node_modules/a/file'), { cache })
      expect([restored.lines, restored.output]).toEqual([[], 'Running cat node_modules/a/file\nkept\n'])
      writeFileSync(cache ?? '', whole.subarray(0, whole.length - 10))
      const { lines, output, failure } = await build(shellProject('ls -A'), { cache })
      expect(failure).toBeUndefined()
      expect(lines).toEqual(['WARN What an earlier build kept could not be unpacked, and is left out'])
      expect(output).not.toContain('node_modules')
    })

    test('nothing, or too much, is not kept', async () => {
      const { signal } = new AbortController()
      const nothing = await build(shellProject('true'))
      expect(await tested.builder.pack({ ...nothing, bytesMax: MiB, signal })).toBeUndefined()
      const much = await build(shellProject('mkdir node_modules && head -c 2M /dev/zero > node_modules/a'))
      expect(await tested.builder.pack({ ...much, bytesMax: MiB, signal })).toBeUndefined()
    })
  })

  describe('what a build is given', () => {
    test('variables arrive byte for byte, NODE_ENV in the build alone', async () => {
      const values = {
        A: ' two\nlines\r\n',
        B: `"'\`$HOME \\ $(id) %s`,
        C: '👩‍👩‍👧 é \u{10ffff}',
        D: '',
        E: 'x'.repeat(100_000),
        NODE_ENV: 'production',
      }
      const names = [...Object.keys(values), 'VERCEL', 'CI', 'NODE_OPTIONS', 'HOME', 'TMPDIR']
      const code = `console.log('GIVEN' + JSON.stringify(Object.fromEntries(${JSON.stringify(names)}.map((name) => [name, process.env[name]]))))`
      const files = shellProject('node env.cjs', { 'env.cjs': code }, 'echo "install: $NODE_ENV."')
      const { output, failure } = await build(files, { variables: { ...values, NODE_OPTIONS: '--no-deprecation' } })
      expect(failure, output).toBeUndefined()
      expect(output).toContain('install: .\n')
      expect(JSON.parse(/^GIVEN(.*)$/m.exec(output)?.[1] ?? '')).toEqual({
        ...values,
        VERCEL: '1',
        CI: '1',
        NODE_OPTIONS: '--max-old-space-size=768 --no-deprecation',
        HOME: '/build/home',
        TMPDIR: '/build/tmp',
      })
    })

    test('Next.js is told what to make of a project that did not say so itself', async () => {
      const code = `
        const { default: adapter } = await import(process.env.NEXT_ADAPTER_PATH)
        console.log([undefined, null, 'standalone', 'export'].map((output) => adapter.modifyConfig({ output }).output).join())`
      const files = shellProject('node build.mjs', { 'build.mjs': code })
      const manifest = { ...(JSON.parse(files['package.json'] ?? '{}') as object), dependencies: { next: '16.4.6' } }
      const { output, failure } = await build({ ...files, 'package.json': JSON.stringify(manifest) })
      expect(failure, output).toBeUndefined()
      expect(output).toContain('standalone,standalone,standalone,export\n')
      const other = await build(shellProject('echo "adapter: $NEXT_ADAPTER_PATH."'))
      expect(other.output).toContain('adapter: .\n')
    })

    test('the commands of vercel.json find the programs of node_modules', async () => {
      const install = `mkdir -p node_modules/.bin && printf '#!/bin/sh\\necho own tool' > node_modules/.bin/tool && chmod +x node_modules/.bin/tool`
      const { failure, output } = await build(shellProject('tool', {}, install))
      expect([failure, output.endsWith('own tool\n')], output).toEqual([undefined, true])
    })
  })

  describe('a failure', () => {
    test.each<[string, Files, string]>([
      [
        'of the install names its command',
        shellProject('true', {}, 'echo no; exit 3'),
        '`echo no; exit 3` ended with exit code 3',
      ],
      ['of the build names its command', shellProject('exit 7'), '`exit 7` ended with exit code 7'],
      ['by a signal names it', shellProject('kill -SEGV $$'), '`kill -SEGV $$` was ended by SIGSEGV'],
      [
        'of a script names its manager',
        { 'package.json': JSON.stringify({ scripts: { build: 'exit 4' } }), 'vercel.json': '{"installCommand":""}' },
        '`npm run build` ended with exit code 4',
      ],
    ])('%s', async (_, files, sentence) => {
      expect((await build(files)).failure).toBe(sentence)
    })

    test('to start names the reason', async () => {
      const { failure } = await build(shellProject('true'), { variables: { LARGE: 'x'.repeat(200_000) } })
      expect(failure).toBe('`true` could not be started: spawn E2BIG')
    })
  })

  describe('limits', () => {
    const LIMITS: [string, Files, Parameters<TestBuilder['build']>[1] & object, string][] = [
      [
        'processes',
        shellProject(`perl -e 'fork while 1'`),
        {},
        'The build had more than 1024 processes and threads at once',
      ],
      [
        'time, of an endless loop',
        shellProject('while :; do :; done'),
        { limits: { timeoutMs: 2_000 } },
        'The build took longer than 2 seconds',
      ],
      [
        'time, of one that sleeps and ignores signals',
        shellProject(`trap '' TERM HUP INT; setsid sleep infinity & sleep infinity`),
        { limits: { timeoutMs: 2_000 } },
        'The build took longer than 2 seconds',
      ],
      [
        'memory',
        inNode(`const kept = []; for (let n = 0; n < 160; n++) kept.push(Buffer.alloc(64 * 2 ** 20, 1))`),
        { limits: { memoryMb: 256 } },
        'The build needed more than 256 MB of memory',
      ],
      [
        'disk, of one large file',
        shellProject('head -c 10G /dev/zero > large'),
        { limits: { diskMb: 64 } },
        'The build wrote more than 64 MB',
      ],
      [
        'disk, of files without end',
        shellProject('n=0; while :; do n=$((n+1)); head -c 4M /dev/zero > ../home/$n; done'),
        { limits: { diskMb: 64 } },
        'The build wrote more than 64 MB',
      ],
      [
        'disk, of files that it removed and holds open',
        shellProject(
          `perl -e 'for (;;) { open(my $f, ">", "file") or sleep 60; unlink("file"); syswrite($f, "x" x 4e6); push @kept, $f }'`,
        ),
        { limits: { diskMb: 64 } },
        'The build wrote more than 64 MB',
      ],
      [
        'disk, of programs that it removed and runs',
        shellProject(
          'for n in 1 2 3 4; do cp /usr/bin/sleep own; head -c 30M /dev/zero >> own; ./own infinity & while ! grep -q own /proc/$!/comm; do :; done; rm own; done; wait',
        ),
        { limits: { diskMb: 64 } },
        'The build wrote more than 64 MB',
      ],
      [
        'a full /tmp',
        shellProject('head -c 1G /dev/zero > /tmp/large'),
        { limits: { memoryMb: 256 } },
        '`head -c 1G /dev/zero > /tmp/large` ended with exit code 1. /tmp is full: it holds 64 MB, TMPDIR more',
      ],
    ]
    test.concurrent.each(LIMITS)(
      '%s: a sentence, no process left, and the neighbour goes on',
      async (_, files, options, sentence) => {
        const begun = Promise.withResolvers<void>()
        const hostile = build(files, { ...options, onOutput: () => begun.resolve() })
        // One that ends before it prints has begun too.
        await Promise.race([begun.promise, hostile])
        const neighbour = await build(inNode(`console.log('built: ' + [1, 2, 3].map((n) => n * n))`))
        expect([neighbour.failure, neighbour.output]).toEqual([undefined, 'Running node build.cjs\nbuilt: 1,4,9\n'])
        const { failure, name, output } = await hostile
        expect(failure, output.slice(0, 1_000)).toBe(sentence)
        expect(listLeft(name)).toEqual([])
      },
    )

    test(
      'a build that holds most memory when its container is nearly full ends with a sentence, before the kernel ends all of it',
      unless(findLimitObstacle()),
      async () => {
        const hungry = inNode(`const kept = []; setInterval(() => kept.push(Buffer.alloc(6 * 2 ** 20, 1)), 100)`)
        const code = `
          import { openTestBuilder } from ${JSON.stringify(import.meta.resolve('./test-builds.ts'))}
          await using tested = openTestBuilder('none')
          const { failure } = await tested.build(${JSON.stringify(hungry)})
          console.log(JSON.stringify({ failure, warnings: tested.warnings.length }))`
        expect(JSON.parse(await runLimited(400 * MiB, code))).toEqual({
          failure:
            'The build held most memory when the platform had hardly any left: deploy again, or build what needs less',
          warnings: 1,
        })
      },
    )

    test('files full of holes take nothing', async () => {
      const files = shellProject('for n in 1 2 3 4 5 6 7 8; do truncate -s 60M hole$n; done; exit 5')
      expect((await build(files, { limits: { diskMb: 64 } })).failure).toMatch(/ ended with exit code 5$/)
    })

    test('what is left behind in the background ends with the build', async () => {
      const { failure, name } = await build(
        shellProject('sleep infinity & (setsid nohup sleep infinity > /dev/null 2>&1 &) ; true'),
      )
      expect([failure, listLeft(name)]).toEqual([undefined, []])
    })

    test('a signal ends it', async () => {
      const reason = new Error('Stopped')
      const controller = new AbortController()
      const onOutput = (chunk: Buffer): void => {
        if (chunk.includes('begun')) controller.abort(reason)
      }
      const files = shellProject('(setsid sleep 4321 &); echo begun; sleep 4321')
      await expect(build(files, { signal: controller.signal, onOutput })).rejects.toBe(reason)
      expect(listLeft()).toEqual([])
      await expect(build(files, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    })

    test('one that prints without end is slowed down', async () => {
      const reason = new Error('Enough')
      const controller = new AbortController()
      const startedAt = performance.now()
      let [bytes, isTooFast] = [0, false]
      const onOutput = (chunk: Buffer): void => {
        bytes += chunk.length
        // The first pause comes only after a tenth of a second's worth has been read.
        isTooFast ||= bytes > 8 * MiB * ((performance.now() - startedAt) / 1_000 + 0.2)
        if (bytes > 16 * MiB) controller.abort(reason)
      }
      const files = shellProject('yes 0123456789012345678901234567890123456789')
      await expect(build(files, { isLoud: true, signal: controller.signal, onOutput })).rejects.toBe(reason)
      expect([isTooFast, bytes > 16 * MiB]).toEqual([false, true])
    })
  })

  describe('the runner', () => {
    test('is not spoken for by what it runs', async () => {
      const lie = JSON.stringify({ step: 0, ok: false, code: 1, signal: null })
      // bubblewrap's arguments also name the runner, but bubblewrap has closed its descriptors.
      const command = `(echo '${lie}' >&3) 2> /dev/null || echo none
        for file in $(grep -la 'runner/main[.]mts' /proc/[0-9]*/cmdline); do
          for n in 0 3; do echo "try $(readlink $(dirname $file)/fd/$n | tr -d 0-9)"; (echo '${lie}' > $(dirname $file)/fd/$n) && echo spoken; done
        done; true`
      const { output, failure } = await build(shellProject(command))
      expect(failure, output).toBeUndefined()
      expect(output.split('\n')).toContain('none')
      expect(output.split('\n').filter((line) => line === 'try socket:[]').length).toBeGreaterThanOrEqual(2)
      expect(output.split('\n')).not.toContain('spoken')
    })

    test('prints what it runs, also where its output does not wait', async () => {
      // perl leaves the shared output full and non-blocking, so that writing fails instead of waiting.
      const fill = `perl -e 'use Fcntl; fcntl(STDOUT, F_SETFL, fcntl(STDOUT, F_GETFL, 0) | O_NONBLOCK); 1 while defined syswrite(STDOUT, "x" x 4096)'`
      let isHeld = false
      const { output, failure } = await build(shellProject('true', {}, fill), {
        onOutput: (chunk) => {
          // Nothing is read until the next program should have started.
          if (!isHeld && chunk.includes('xxx')) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500)
          isHeld ||= chunk.includes('xxx')
        },
      })
      expect(failure, output.slice(-200)).toBeUndefined()
      expect(output).toMatch(/xRunning true\n$/)
    })
  })

  describe('what a build leaves', () => {
    test('is read as what it is, and removed, whatever it is', async () => {
      const files = shellProject(`
        mkdir -p dist/closed && echo page > dist/index.html && echo hidden > dist/closed/file && mkfifo dist/pipe pipe
        ln -s /etc/shadow dist/shadow; ln -s /proc/self/root/etc dist/etc; ln -s ../../../../../../../../etc/hostname dist/up; ln -s index.html dist/again
        echo run > dist/run; chmod 6755 dist/run; mknod dist/device b 8 0 || echo no device
        perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0); bind($s, sockaddr_un("dist/socket")) or die'
        perl -e 'for (1..5000) { mkdir "d" x 60; chdir "d" x 60 or die }' && mv ${'d'.repeat(60)} ../home/deep
        mkdir -p node_modules/a && chmod 000 node_modules/a dist/closed/file dist/closed`)
      const { project, folder, output, failure, ...rest } = await build(files)
      expect(failure, output).toBeUndefined()
      expect(output).toContain('no device')
      const builtProject = await read(project, Object.keys(files))
      expect(
        Object.fromEntries(builtProject.files.entries().map(([path, { isExecutable }]) => [path, isExecutable])),
      ).toEqual({
        'dist/index.html': false,
        'dist/again': false,
        'dist/run': true,
        'dist/closed/file': false,
      })
      expect((await builtProject.read('dist/closed/file')).toString()).toBe('hidden\n')
      expect([...builtProject.warnings].toSorted()).toEqual(
        ['etc', 'shadow', 'up'].map((name) => expect.stringContaining(`The link "dist/${name}" leads `)),
      )
      // Files that their own user cannot read are not kept.
      const { signal } = new AbortController()
      expect(await tested.builder.pack({ ...rest, folder, bytesMax: MiB, signal })).toBeUndefined()
      await removeFolder(folder)
      expect(existsSync(folder)).toBe(false)
    })

    test.each([
      ['a line feed', `touch "dist/$(printf 'a\\nb')"`, /a name with a backslash or a character that is not printed$/],
      ['no UTF-8', `touch "$(printf 'dist/\\377')"`, /a name that is not UTF-8$/],
      [
        'a link in place of the project',
        'cd .. && mv project own && ln -s /etc project',
        /^The build removed the folder of its project$/,
      ],
    ])('is refused with %s', async (_, command, sentence) => {
      const { project, failure, output } = await build(shellProject(`mkdir dist; touch dist/index.html; ${command}`))
      expect(failure, output).toBeUndefined()
      await expect(read(project)).rejects.toThrow(sentence)
    })
  })

  test('nothing of this went wrong on the machine', () => {
    expect(tested.warnings).toEqual([])
  })

  test('what a build sees of the machine', async () => {
    const server = createServer().listen(join(tested.folder, 'platform.sock'))
    await once(server, 'listening')
    const neighbour = Promise.withResolvers<void>()
    const controller = new AbortController()
    const running = build(shellProject('echo secret > own; echo begun; sleep infinity'), {
      signal: controller.signal,
      variables: { SECRET: 'secret-of-the-neighbour' },
      onOutput: (chunk) => void (chunk.includes('begun') && neighbour.resolve()),
    }).catch(() => undefined)
    await neighbour.promise
    const code = `const fs = require('node:fs'), net = require('node:net')
      const tried = (act) => { try { return act() } catch (error) { return error.code } }
      const folder = ${JSON.stringify(tested.folder)}, node = process.execPath.split('/')[1]
      const texts = (file) => fs.readdirSync('/proc').filter((name) => /^\\d+$/.test(name)).map((pid) => tried(() => fs.readFileSync('/proc/' + pid + '/' + file, 'utf8'))).join()
      const socket = net.connect(folder + '/platform.sock').on('connect', () => answer('connected')).on('error', ({ code }) => answer(code))
      const answer = (connected) => console.log('SEEN' + JSON.stringify({
        root: fs.readdirSync('/').filter((name) => !/^(bin|sbin|lib\\w*|usr|etc|proc|dev|tmp)$/.test(name) && name !== node),
        build: fs.readdirSync('/build'), opt: fs.readdirSync('/opt'), own: fs.readdirSync('/opt/build'), run: fs.readdirSync('/run'),
        programs: fs.readdirSync('/opt/build/programs'), project: fs.readdirSync('.'), home: fs.readdirSync('/build/home'), tmp: fs.readdirSync('/build/tmp'),
        shadow: tried(() => fs.readFileSync('/etc/shadow', 'utf8')), folder: tried(() => fs.readdirSync(folder)), connected,
        written: ['/opt/build/programs/npm/npm', '/opt/build/runner/main.mts', '/opt/npm/package.json', '/usr/bin/new', '/new', '/etc/passwd'].map((path) => tried(() => fs.writeFileSync(path, ''))),
        user: [process.getuid(), process.getgid(), process.getgroups().filter((group) => group !== 1000)],
        processes: texts('comm').split('\\n').length < 10, neighbour: texts('environ').includes('secret-of-the-neighbour'),
        platform: texts('environ').includes('VITEST') || texts('cmdline').includes('vitest'),
      }))`
    const { output, failure } = await build(inNode(code))
    controller.abort(new Error('It is over'))
    await running
    server.close()
    expect(failure, output).toBeUndefined()
    expect(JSON.parse(/^SEEN(.*)$/m.exec(output)?.[1] ?? '')).toEqual({
      root: ['build', 'opt', 'run'],
      build: ['home', 'project', 'tmp'],
      opt: ['berry', 'build', 'npm', 'pnpm', 'yarn'],
      own: ['certificates', 'programs', 'runner'],
      run: ['registry.sock'],
      programs: ['berry', 'common', 'npm', 'pnpm', 'yarn'],
      project: ['build.cjs', 'package.json', 'vercel.json'],
      home: [],
      tmp: [],
      shadow: 'ENOENT',
      folder: 'ENOENT',
      connected: 'ENOENT',
      written: ['EROFS', 'EROFS', 'EROFS', 'EROFS', 'EROFS', 'EROFS'],
      user: [1000, 1000, []],
      processes: true,
      neighbour: false,
      platform: false,
    })
  })
})
