/** What every peer is told, as the JSON of its one argument. */
interface PeerSettings {
  databaseUrl: string
  redisUrl: string
  port: number
}

/** Reads the argument, `more` of its members besides, and ends the process when whoever started it is gone. */
export function readSettings<Name extends string = never>(
  ...more: readonly Name[]
): PeerSettings & Record<Name, string> {
  process.stdin.on('end', () => process.exit(0)).resume()
  const settings = JSON.parse(process.argv[2] ?? '{}') as PeerSettings & Record<Name, string>
  const missing = ['databaseUrl', 'redisUrl', 'port', ...more].find((name) => !(name in settings))
  if (missing !== undefined) throw new Error(`The setting ${missing} is missing`)
  return settings
}
