import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { accessSync } from 'node:fs'

/** Where the system's programs are. Never the platform's own PATH: these run as root. */
export const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** Whether a program of this name is installed. */
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

/** Runs a shell script to its end and returns what it printed. Its first failing command ends it; throws with what that said. */
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

/** A word of a shell script that stands for this text, whatever is in it. */
export function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
