import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { accessSync } from 'node:fs'

/** The PATH of system programs. Never the platform's own PATH: these run as root. */
export const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** True if a program of this name is installed. */
export function hasProgram(name: string): boolean {
  return SYSTEM_PATH.split(':').some((folder) => {
    try {
      accessSync(`${folder}/${name}`, constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/** Runs a shell script and returns its output. The first failing command ends it; throws with that command's error output. */
export function runScript(script: string): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(
      '/bin/sh',
      ['-ec', script],
      { env: { PATH: SYSTEM_PATH }, cwd: '/', timeout: 30_000 },
      (error, stdout, stderr) => {
        if (error === null) resolve(stdout)
        else reject(new Error(stderr.trim() === '' ? error.message : stderr.trim(), { cause: error }))
      },
    )
  })
}

/** Quotes any text as one word of a shell script. */
export function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
