import { type Arguments, UsageError } from '@platform/service/cli'

/** Reads an option whose value is true or false; undefined if it is not given. Throws UsageError. */
export function readSwitch(args: Arguments, name: string): boolean | undefined {
  const value = args.option(name)
  if (value === undefined) return undefined
  if (value !== 'true' && value !== 'false') throw new UsageError(`--${name} is true or false`)
  return value === 'true'
}
