import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { getPriority, tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { unless } from '@platform/test-runner/task-meta'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openSandbox, type SandboxOptions } from './open-sandbox.ts'
import { findProcess, isRunning, listDescendants } from './process-tree.ts'
import type { Sandbox, SandboxedCommand, SandboxedProcess, SandboxExit, SandboxLimits } from './sandbox.ts'
import { findTestObstacle } from './test-obstacle.ts'

const MiB = 2 ** 20
const obstacle = findTestObstacle(['bwrap', 'setpriv', 'prlimit'])
const LIMITS: SandboxLimits = { memoryBytes: 256 * MiB, processes: 60, openFiles: 256, tmpBytes: MiB, cpuShare: 50 }

const KINDS: {
  kind: string
  options: Pick<SandboxOptions, 'mode' | 'egress' | 'hasControlGroups'>
  needsWalls: boolean
}[] = [
  { kind: 'bubblewrap', options: { mode: 'required', egress: 'none' }, needsWalls: true },
  {
    kind: 'bubblewrap without control groups',
    options: { mode: 'required', egress: 'none', hasControlGroups: false },
    needsWalls: true,
  },
  { kind: 'plain processes', options: { mode: 'none' }, needsWalls: false },
  {
    kind: 'plain processes without control groups',
    options: { mode: 'none', hasControlGroups: false },
    needsWalls: false,
  },
]

let made = 0
const folder = mkdtempSync(join(tmpdir(), 'sandbox-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function commandOf(code: string, more: Partial<SandboxedCommand> = {}): SandboxedCommand {
  made += 1
  return {
    name: `test-${made}`,
    networkId: `network-${made}`,
    argv: [process.execPath, '-e', code],
    env: { PATH: '/usr/bin:/bin' },
    mounts: [],
    workingDirectory: '/tmp',
    limits: LIMITS,
    ...more,
  }
}

/** Control groups of the sandbox of a folder: one per owner in each hierarchy, and one per command in each of those. */
const listGroups = (own: string): string[] =>
  (JSON.parse(readFileSync(join(own, 'groups.json'), 'utf8')) as string[]).flatMap((prefix) =>
    readdirSync(dirname(prefix), { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && entry.name.startsWith(basename(prefix)))
      .map(({ name }) => join(dirname(prefix), name))
      .flatMap((owner) => [owner, ...readdirSync(owner).map((name) => join(owner, name))])
      .filter((path) => statSync(path).isDirectory()),
  )

async function finish(started: SandboxedProcess): Promise<SandboxExit & { said: string; complained: string }> {
  const [said, complained, exit] = await Promise.all([text(started.stdout), text(started.stderr), started.exited])
  return { ...exit, said, complained }
}

for (const { kind, options, needsWalls } of KINDS)
  describe(`with ${kind}`, unless(needsWalls ? obstacle : undefined), () => {
    const opened = join(folder, `open-${kind.replaceAll(' ', '-')}`)
    let sandbox: Sandbox
    beforeAll(async () => {
      // A busy machine leaves nobody half a core, and takes its time to start the next command.
      sandbox = await openSandbox({ folder: opened, ...options, cpu: { share: 0.01, calmMs: 600_000 } })
    })
    afterAll(() => sandbox?.close())

    const run = async (
      code: string,
      more?: Partial<SandboxedCommand>,
    ): Promise<SandboxExit & { said: string; complained: string }> => finish(await sandbox.start(commandOf(code, more)))

    test('a command answers with its output, its code, and the environment it was given alone', async () => {
      const code = `process.stdout.write(JSON.stringify([process.env, process.cwd()])); process.stderr.write('complaint'); process.exitCode = 7`
      const value = `quotes ' " $HOME \`id\`\nand lines`
      const { said, ...rest } = await run(code, { env: { VALUE: value } })
      expect(rest).toEqual({ code: 7, signal: null, cause: 'exit', complained: 'complaint' })
      const [env, cwd] = JSON.parse(said) as [Record<string, string>, string]
      expect(env['VALUE']).toBe(value)
      expect(Object.keys(env).filter((name) => !['VALUE', 'PWD', 'OLDPWD', 'SHLVL', '_'].includes(name))).toEqual([])
      expect(cwd).toBe('/tmp')
    })

    test('a signal that ends a command is told', async () => {
      expect(await run(`process.kill(process.pid, 'SIGTERM')`)).toMatchObject({
        code: null,
        signal: 'SIGTERM',
        cause: 'exit',
      })
    })

    test('input reaches the command, and descriptor 3 speaks both ways', async () => {
      const started = await sandbox.start(
        commandOf(`const net = require('node:net'); const control = new net.Socket({ fd: 3 })
          process.stdin.on('data', (chunk) => control.write('read ' + chunk)); control.on('data', (chunk) => { console.log('told ' + chunk); process.exit() })`),
      )
      started.stdin.end('input')
      const [answer] = (await once(started.control, 'data')) as [Buffer]
      expect(answer.toString()).toBe('read input')
      started.control.write('goodbye')
      expect(await finish(started)).toMatchObject({ said: 'told goodbye\n', code: 0 })
    })

    test('mounts are found by their path, and only writable ones are written to', async () => {
      const source = mkdtempSync(join(folder, 'mount-'))
      mkdirSync(join(source, 'read'))
      writeFileSync(join(source, 'read/file'), 'contents')
      await sandbox.makeWritable(join(source, 'write'))
      expect(statSync(join(source, 'write')).mode & 0o777).toBe(0o700)
      const read = { source: join(source, 'read'), target: '/read' }
      const write = { source: join(source, 'write'), target: '/write', isWritable: true }
      const paths = JSON.stringify([sandbox.pathOf(read), sandbox.pathOf(write)])
      const code = `const fs = require('node:fs'); const [read, write] = ${paths}; const before = fs.readdirSync(write)
        for (const name of before) fs.appendFileSync(write + '/' + name, 'again')
        fs.writeFileSync(write + '/' + before.length, 'new'); console.log(fs.readFileSync(read + '/file', 'utf8'))`
      const mounts = [read, write]
      // The second command runs as another user, and may change the first one's files.
      for (const _ of [1, 2]) expect(await run(code, { mounts })).toMatchObject({ said: 'contents\n', complained: '' })
      expect(readFileSync(join(source, 'write/0'), 'utf8')).toBe('newagain')
      if (!needsWalls) return
      const { complained } = await run(`require('node:fs').writeFileSync('/read/new', '')`, { mounts })
      expect(complained).toMatch(/EROFS/)
    })

    test.runIf(needsWalls)('a folder that is given is read, whoever owned it, and not written to', async () => {
      const source = join(mkdtempSync(join(folder, 'given-')), 'own')
      mkdirSync(source, { mode: 0o700 })
      writeFileSync(join(source, 'file'), 'for its owner', { mode: 0o600 })
      const code = `const fs = require('node:fs'); console.log(fs.readFileSync('/own/file', 'utf8')); fs.writeFileSync('/own/new', '')`
      const { said, complained } = await run(code, { mounts: [{ source, target: '/own', isGiven: true }] })
      expect(said, complained).toBe('for its owner\n')
      expect(complained).toMatch(/EROFS/)
    })

    test('a Unix socket in a writable folder is reached from outside', async () => {
      const source = join(mkdtempSync(join(folder, 'socket-')), 'slot')
      await sandbox.makeWritable(source)
      const mount = { source, target: '/slot', isWritable: true }
      const started = await sandbox.start(
        commandOf(
          `require('node:net').createServer((s) => s.end('served')).listen(${JSON.stringify(`${sandbox.pathOf(mount)}/a.sock`)}, () => console.log('up'))`,
          {
            mounts: [mount],
          },
        ),
      )
      await once(started.stdout, 'data')
      expect(await text(connect(join(source, 'a.sock')))).toBe('served')
      started.kill()
      await started.exited
    })

    test('a command reaches a Unix socket that the platform serves in a read-only mount', async () => {
      const source = join(mkdtempSync(join(folder, 'platform-')), 'sockets')
      mkdirSync(source)
      const server = createServer((socket) => socket.end('the platform'))
      server.listen({ path: join(source, 'api.sock'), readableAll: true, writableAll: true })
      await once(server, 'listening')
      const mount = { source, target: '/run/platform' }
      const { said, complained } = await run(
        `require('node:net').connect(${JSON.stringify(`${sandbox.pathOf(mount)}/api.sock`)}).pipe(process.stdout)`,
        { mounts: [mount] },
      )
      server.close()
      expect(said, complained).toBe('the platform')
    })

    test('kill ends every process of the tree', async () => {
      const started = await sandbox.start(
        commandOf(`const { spawn } = require('node:child_process')
          for (let i = 0; i < 3; i++) spawn('/bin/sh', ['-c', 'sleep 1000 & sleep 1000'], { stdio: 'ignore' })
          setTimeout(() => console.log('up'), 100); setInterval(() => {}, 1000)`),
      )
      await once(started.stdout, 'data')
      const processes = [started.pid, ...listDescendants(started.pid)].map(findProcess)
      expect(processes.length).toBeGreaterThan(6)
      expect(await started.memoryBytes()).toBeGreaterThan(5 * MiB)
      started.kill()
      started.kill()
      expect(await started.exited).toEqual({ code: null, signal: 'SIGKILL', cause: 'killed' })
      expect(processes.filter((each) => each !== undefined && isRunning(each))).toEqual([])
      expect(await started.memoryBytes()).toBe(0)
    })

    test('processes that a command leaves behind end with it', async () => {
      const code = `const child = require('node:child_process').spawn('/bin/sleep', ['1000'], { stdio: 'ignore' }); child.unref()
        console.log('up'); process.stdin.once('data', () => process.exit(0))`
      const started = await sandbox.start(commandOf(code))
      await once(started.stdout, 'data')
      const processes = listDescendants(started.pid).map(findProcess)
      expect(processes.length).toBeGreaterThan(0)
      started.stdin.write('end')
      expect(await started.exited).toEqual({ code: 0, signal: null, cause: 'exit' })
      expect(processes.filter((each) => each !== undefined && isRunning(each))).toEqual([])
    })

    test('two commands of one name do not run at once, and one name may be used again', async () => {
      const command = commandOf(`setInterval(() => {}, 1000)`)
      const started = await sandbox.start(command)
      await expect(sandbox.start(command)).rejects.toThrow(/runs already/)
      started.kill()
      await started.exited
      const again = await sandbox.start(command)
      again.kill()
      expect((await again.exited).cause).toBe('killed')
    })

    test('it cannot open more files than its limit', async () => {
      const code = `const fs = require('node:fs'); let count = 0
        try { for (; count < 100_000; count++) fs.openSync('/dev/null') } catch (error) { console.log(error.code, count < 256) }`
      expect(await run(code)).toMatchObject({ said: 'EMFILE true\n', code: 0 })
    })

    test('growth beyond a limit set at run time throws, and the process lives', async () => {
      const code = `process.stdin.on('data', () => { try { const kept = []; for (let i = 0; i < 20; i++) kept.push(Buffer.alloc(16 * 2 ** 20, 1)) } catch (error) { console.log(error.code) } process.exit(0) }); console.log('up')`
      const started = await sandbox.start(commandOf(code, { limits: { ...LIMITS, memoryBytes: 1024 * MiB } }))
      await once(started.stdout, 'data')
      await started.limitGrowth(100 * MiB)
      started.stdin.write('go')
      expect(await finish(started)).toMatchObject({ said: 'ERR_MEMORY_ALLOCATION_FAILED\n', code: 0 })
    })

    test('memory that many children share out is limited as a whole', async () => {
      const child = `const kept = []; setInterval(() => kept.length < 5 && kept.push(Buffer.alloc(${8 * MiB}, 1)), 20)`
      const code = `const { spawn } = require('node:child_process')
        for (let i = 0; i < 5; i++) spawn(process.execPath, ['-e', ${JSON.stringify(child)}]); setInterval(() => {}, 1000)`
      expect(await run(code, { limits: { ...LIMITS, memoryBytes: 128 * MiB } })).toMatchObject({
        cause: 'memory',
        signal: 'SIGKILL',
      })
    })

    const hasGroups = options.hasControlGroups !== false && obstacle === undefined
    if (!hasGroups && needsWalls)
      test('it cannot hold memory that is no process’s', async () => {
        const calls = process.arch === 'arm64' ? [279, 194] : [319, 29]
        const code = `for my $call (${calls.join(', ')}) { my $name = chr(0) x 8; print syscall($call, $call == ${calls[0]} ? ($name, 0, 0) : (0, 4096, 0600)) < 0 ? $!+0 : 'done', ' ' }`
        expect(await run('', { argv: ['/usr/bin/perl', '-e', code] })).toMatchObject({ said: '1 1 ' })
      })

    if (hasGroups)
      test('memory beyond the limit ends the command, for that reason', async () => {
        const code = `const kept = []; for (;;) kept.push(Buffer.alloc(${8 * MiB}, 1))`
        expect(await run(code, { limits: { ...LIMITS, memoryBytes: 96 * MiB } })).toMatchObject({
          cause: 'memory',
          signal: 'SIGKILL',
        })
      })

    if (hasGroups)
      test('memory that the kernel ended a process for is the reason, though the platform ends the rest', async () => {
        const hungry = `const kept = []; for (;;) kept.push(Buffer.alloc(${8 * MiB}, 1))`
        const started = await sandbox.start(
          commandOf('', {
            argv: ['/bin/sh', '-c', '"$0" -e "$1"; echo gone; sleep 1000', process.execPath, hungry],
            limits: { ...LIMITS, memoryBytes: 96 * MiB },
          }),
        )
        // Some kernels end all of the command by themselves.
        await Promise.race([once(started.stdout, 'data'), started.exited])
        started.kill()
        expect((await started.exited).cause).toBe('memory')
      })

    // Without control groups, plain processes have no limit that is safe to test.
    if (hasGroups || needsWalls)
      test('more processes than may be end the command, if it is told so', async () => {
        const argv = ['/usr/bin/perl', '-e', 'defined fork or sleep 60 while 1']
        const limits = { ...LIMITS, endsAtProcesses: true }
        expect(await run('', { argv, limits })).toMatchObject({ cause: 'processes', signal: 'SIGKILL' })
      })

    if (hasGroups)
      test('what its connections hold is limited, and the command lives', async () => {
        const code = `use Socket; use Fcntl; my @open; my $held = 0; my $piece = 'x' x 65536;
        socket(my $server, AF_INET, SOCK_STREAM, 0); bind($server, sockaddr_in(0, INADDR_LOOPBACK)); listen($server, 500);
        my ($port) = sockaddr_in(getsockname($server));
        for (1..60) {
          socket(my $one, AF_INET, SOCK_STREAM, 0); connect($one, sockaddr_in($port, INADDR_LOOPBACK)); accept(my $other, $server);
          fcntl($one, F_SETFL, O_NONBLOCK); while (my $written = syswrite($one, $piece)) { $held += $written } push @open, $one, $other }
        print $held`
        const { said, cause } = await run('', { argv: ['/usr/bin/perl', '-e', code] })
        // A quarter of its memory, or with version 2 all of it, which holds them too.
        if (cause === 'exit') expect(Number(said)).toBeLessThan(LIMITS.memoryBytes / 2)
        else expect(cause).toBe('memory')
      })

    if (hasGroups || needsWalls)
      test('a fork bomb meets its limit, and the command lives', async () => {
        const code = `const { spawn } = require('node:child_process'); let started = 0, failed = 0
        const settle = () => { if (started + failed === 100) { console.log(failed > 40, started > 10); process.exit() } }
        for (let i = 0; i < 100; i++) { const child = spawn('/bin/sleep', ['1000'], { stdio: 'ignore' }); child.on('spawn', () => { started++; settle() }).on('error', (error) => { failed += error.code === 'EAGAIN'; settle() }) }`
        expect(await run(code)).toMatchObject({ said: 'true true\n', code: 0 })
      })

    if (needsWalls)
      test('a full /tmp is an error, and the command lives', async () => {
        const code = `const fs = require('node:fs'); const answers = ['/tmp', '/dev/shm'].map((folder) => { let written = 0
          try { for (; written < 100 * 2 ** 20; written += 65536) fs.appendFileSync(folder + '/file', Buffer.alloc(65536)) } catch (error) { return error.code + ' ' + (written <= 17 * 2 ** 20) } })
        fs.rmSync('/tmp/file'); fs.writeFileSync('/tmp/file', 'again'); console.log(answers.join())`
        expect(await run(code)).toMatchObject({ said: 'ENOSPC true,ENOSPC true\n', code: 0 })
      })

    test('its share of the CPU is lower than the platform’s', async () => {
      const started = await sandbox.start(
        commandOf(`console.log(require('node:os').getPriority()); setInterval(() => {}, 1000)`),
      )
      const [chunk] = (await once(started.stdout, 'data')) as [Buffer]
      if (sandbox.capabilities.cgroups !== undefined) {
        const shares = listGroups(opened)
          .filter((group) => basename(group) === `test-${made}`)
          .flatMap((group) => ['cpu.shares', 'cpu.weight'].map((file) => join(group, file)))
          .filter((file) => existsSync(file))
          .map((file) => readFileSync(file, 'utf8').trim())
        expect([['512'], ['50']]).toContainEqual(shares)
      } else {
        // The system cuts it off at 19.
        expect(chunk.toString()).toBe(`${Math.min(getPriority() + 5, 19)}\n`)
      }
      started.kill()
      await started.exited
    })

    if (hasGroups)
      test('an owner that keeps a core busy runs behind the others, its next command too', async () => {
        const idleOf = (owner: string): string[] =>
          listGroups(opened)
            .map((group) => join(group, 'cpu.idle'))
            .filter((file) => existsSync(file) && basename(dirname(file)).endsWith(`-${owner}`))
            .map((file) => readFileSync(file, 'utf8').trim())
        const calm = await sandbox.start(commandOf(`setInterval(() => {}, 1000)`, { networkId: 'calm' }))
        const busy = await sandbox.start(commandOf(`for (;;);`, { networkId: 'busy' }))
        await expect.poll(() => idleOf('busy'), { timeout: 60_000 }).toEqual(['1'])
        expect(idleOf('calm')).toEqual(['0'])
        busy.kill()
        // Among busy others it could not end.
        expect(idleOf('busy')).toEqual(['0'])
        await busy.exited
        expect(idleOf('busy')).toEqual([])
        const next = await sandbox.start(commandOf(`setInterval(() => {}, 1000)`, { networkId: 'busy' }))
        expect(idleOf('busy')).toEqual(['1'])
        // It has done nothing for a while.
        await expect.poll(() => (next.allowAnswer(), idleOf('busy'))).toEqual(['0'])
        for (const each of [calm, next]) {
          each.kill()
          await each.exited
        }
      })

    test('close ends what runs, and nothing is started any more', async () => {
      made += 1
      const own = join(folder, `close-${made}`)
      const other = await openSandbox({ folder: own, ...options })
      const started = await other.start(commandOf(`setInterval(() => {}, 1000)`))
      await other.close()
      expect((await started.exited).cause).toBe('killed')
      await expect(other.start(commandOf('0'))).rejects.toThrow('closed')
      expect(listGroups(own)).toEqual([])
      expect(readdirSync(join(own, 'commands'))).toEqual([])
    })

    test('a sandbox whose process was killed leaves nothing to the next of its folder', async () => {
      made += 1
      const own = join(folder, `killed-${made}`)
      const command = commandOf(
        `require('node:child_process').spawn('/bin/sleep', ['1000'], { stdio: 'ignore' }); console.log('up'); setInterval(() => {}, 1000)`,
      )
      const code = `import { openSandbox } from ${JSON.stringify(join(import.meta.dirname, 'open-sandbox.ts'))}
        const sandbox = await openSandbox(${JSON.stringify({ folder: own, ...options })})
        const started = await sandbox.start(${JSON.stringify(command)})
        started.stdout.once('data', () => console.log(started.pid))`
      const owner = spawn(process.execPath, ['--input-type=module', '-e', code], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const [line] = (await once(owner.stdout, 'data')) as [Buffer]
      const pid = Number(line.toString())
      const processes = [pid, ...listDescendants(pid)].map(findProcess)
      expect(processes.length).toBeGreaterThan(1)
      if (hasGroups) expect(listGroups(own).length).toBeGreaterThan(0)
      await expect(openSandbox({ folder: own, ...options })).rejects.toThrow(`process ${owner.pid}`)
      const ended = once(owner, 'exit')
      owner.kill('SIGKILL')
      await ended
      // With bubblewrap they end with their owner, on their own.
      if (needsWalls)
        await expect.poll(() => processes.filter((each) => each !== undefined && isRunning(each))).toEqual([])
      const next = await openSandbox({ folder: own, ...options })
      expect(processes.filter((each) => each !== undefined && isRunning(each))).toEqual([])
      expect(listGroups(own)).toEqual([])
      await next.close()
    })
  })
