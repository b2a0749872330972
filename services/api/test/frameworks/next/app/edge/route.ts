export const runtime = 'edge'

export const GET = (request: Request) => Response.json({ runtime: 'edge', path: new URL(request.url).pathname })
