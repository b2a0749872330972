import { render } from 'preact'
import { readConfig } from './config.ts'
import { Console } from './console.tsx'
import { openSession } from './session/session.ts'
import { NotReached } from './session/stopped.tsx'
import { reloadWhenUpgraded } from './upgrade.ts'

reloadWhenUpgraded()
const root = document.getElementById('console') as HTMLElement
try {
  const config = await readConfig()
  render(<Console config={config} control={openSession(config)} />, root)
} catch (error) {
  render(<NotReached sentence={(error as Error).message} />, root)
}
