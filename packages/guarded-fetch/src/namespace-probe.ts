import { get } from 'node:http'
import { text } from 'node:stream/consumers'
import { openGuardedFetch } from './guarded-fetch.ts'

/**
 * The process under test: a program of its own within the network namespace. Requests each URL in turn, guarded or (as the
 * counter-check) not, and prints the results as a JSON list.
 */
const [mode = '', urls = '[]', allow = '[]'] = process.argv.slice(2)
const guarded = openGuardedFetch({ allow: JSON.parse(allow) })

const unguarded = (url: string): Promise<string> =>
  new Promise((resolve, reject) => {
    get(url, { agent: false }, (response) => void text(response).then(resolve, reject)).on('error', reject)
  })

const results: string[] = []
for (const url of JSON.parse(urls) as string[]) {
  try {
    if (mode === 'unguarded') results.push(await unguarded(url))
    else {
      const { status, body } = await guarded.fetch({
        url,
        method: 'GET',
        headers: { connection: 'close' },
        redirectsMax: 3,
      })
      results.push(`${status} ${await text(body)}`)
    }
  } catch (error) {
    results.push(error instanceof Error ? error.name : 'unknown')
  }
}
await guarded.close()
process.stdout.write(JSON.stringify(results))
