import { createContext } from 'preact'
import { useContext } from 'preact/hooks'

/** What this installation is, as the API's configuration tells it. */
export interface Config {
  apiUrl: string
  issuer: string
  clientId: string
  /** Hostnames of applications are below its host. */
  appsUrl: string
}

/** Reads /config.json of the origin that serves the console. Throws an Error that says what failed. */
export async function readConfig(): Promise<Config> {
  const answer = await fetch('/config.json')
  if (!answer.ok) throw new Error(`The console's configuration was not found (status ${answer.status})`)
  return (await answer.json()) as Config
}

export const ConfigContext = createContext<Config | undefined>(undefined)

export function useConfig(): Config {
  const config = useContext(ConfigContext)
  if (!config) throw new Error('The configuration is not read yet')
  return config
}
