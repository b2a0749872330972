import { filesSource } from '@platform/sdk/pack'
import type { Given } from './dropped.ts'

const page = `<!doctype html>
<html lang="en">
  <meta charset="utf-8" />
  <meta name="viewport" content="width=device-width, initial-scale=1" />
  <title>It runs</title>
  <link rel="stylesheet" href="style.css" />
  <h1>It runs</h1>
  <p>This page was deployed from the console. Change it: drop a folder of your own.</p>
</html>
`
const style = `:root { color-scheme: light dark }
body { font: 1.125rem/1.6 system-ui, sans-serif; max-width: 40rem; margin: 20vh auto; padding: 0 1.5rem }
`

/** A page to deploy for whoever has none at hand. */
export const sample = (): Given => ({
  kind: 'folder',
  name: 'Sample page',
  source: filesSource([
    { path: 'index.html', file: new Blob([page]) },
    { path: 'style.css', file: new Blob([style]) },
  ]),
})
