import { readFile } from 'node:fs/promises'
import { Ajv, type ValidateFunction } from 'ajv'

const read = async (name: string): Promise<object> =>
  JSON.parse(await readFile(new URL(`../schemas/${name}`, import.meta.url), 'utf8')) as object

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** Checks documents against the schemas that are checked in. */
export async function openSchemas() {
  const ajv = new Ajv({ allErrors: true, strict: true, strictRequired: false, allowUnionTypes: true })
  ajv.addFormat('uuid', UUID)
  ajv.addFormat('date-time', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  const { commands, ...rest } = (await read('data.json')) as { commands: Record<string, object> }
  const isDocument = ajv.compile(await read('document.json'))
  const byCommand = new Map(
    Object.entries(commands).map(([name, schema]) => [name, ajv.compile({ ...rest, ...schema })]),
  )
  const errorsOf = (check: ValidateFunction, value: unknown): string[] =>
    check(value) ? [] : (check.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`)
  return {
    commands: [...byCommand.keys()],
    /** What is wrong with a document; empty if nothing is. */
    check(command: string, document: { status?: string; data?: unknown }): string[] {
      const errors = errorsOf(isDocument, document)
      const schema = byCommand.get(command)
      if (!schema) return [...errors, `there is no schema for "${command}"`]
      return document.status === 'ok' ? [...errors, ...errorsOf(schema, document.data)] : errors
    },
  }
}
