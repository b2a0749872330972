import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Service } from './service.ts'

/**
 * Ends the services of a launcher that was killed. They end by themselves, but may take half a minute to finish their work,
 * and hold their ports until then. The caller must hold the data folder. Safe to repeat.
 */
export function endLeftoverServices(dataFolder: string): void {
  for (const line of readLines(fileIn(dataFolder))) {
    const [pid, script] = line.split(' ') as [string, string]
    // By now the pid may belong to another program.
    const { stdout } = spawnSync('ps', ['-o', 'args=', '-p', pid], { encoding: 'utf8' })
    if (!stdout.includes(script)) continue
    try {
      process.kill(-Number(pid), 'SIGKILL')
    } catch {
      // ended meanwhile
    }
  }
  rememberServices(dataFolder, [])
}

/** Records the services for endLeftoverServices, in case we are killed; an empty list once they have ended. */
export function rememberServices(dataFolder: string, services: Service[]): void {
  const lines = services.map(({ pid, script }) => `${pid} ${script}\n`)
  writeFileSync(fileIn(dataFolder), lines.join(''), { mode: 0o600 })
}

function fileIn(dataFolder: string): string {
  return join(dataFolder, 'services.pid')
}

function readLines(file: string): string[] {
  try {
    return readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
  } catch {
    return [] // the first start
  }
}
