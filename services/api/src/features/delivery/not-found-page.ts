import type { IncomingMessage, ServerResponse } from 'node:http'

const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Nothing is deployed here</title>
<style>
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
  body { min-height: 90vh; display: grid; place-content: center; text-align: center; margin: 0; padding: 1rem }
  p { opacity: .75 }
</style>
<h1>Nothing is deployed here</h1>
<p>No application answers at this address.</p>
</html>
`

/** Answers 404 with a page for a hostname that belongs to nothing. */
export function sendNotFoundPage({
  incoming,
  outgoing,
}: {
  incoming: IncomingMessage
  outgoing: ServerResponse
}): void {
  outgoing.writeHead(404, {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  })
  outgoing.end(incoming.method === 'HEAD' ? undefined : page)
}
