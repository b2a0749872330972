/** What this installation is, as the API's configuration tells it. */
export interface Config {
  apiUrl: string
  issuer: string
  clientId: string
}

/** Reads /config.json of the origin that serves the console. Throws an Error that says what failed. */
export async function readConfig(): Promise<Config> {
  const answer = await fetch('/config.json')
  if (!answer.ok) throw new Error(`The console's configuration was not found (status ${answer.status})`)
  return (await answer.json()) as Config
}
