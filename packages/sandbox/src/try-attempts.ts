import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openAttemptSandbox } from './attempt-sandbox.ts'
import { ATTEMPTS } from './attempts.ts'
import type { NetworkKind } from './network-carrier.ts'

/**
 * A program that makes all attempts where it runs, in a sandbox with a public network, and prints each answer by the attempt's name as
 * JSON. Its argument says what carries the network.
 */
const folder = mkdtempSync(join(tmpdir(), 'attempts-'))
const sandbox = await openAttemptSandbox(folder, { egress: 'public', network: process.argv[2] as NetworkKind })
const { answers, stderr } = await sandbox.attempt(ATTEMPTS)
await sandbox.close()
rmSync(folder, { recursive: true, force: true })
if (answers.length !== ATTEMPTS.length) throw new Error(`The attempts ended early: ${stderr}`)
console.log(JSON.stringify(Object.fromEntries(ATTEMPTS.map(({ name }, index) => [name, answers[index]]))))
