import type { APIRoute } from 'astro'

export const GET: APIRoute = () => {
  const encoder = new TextEncoder()
  const body = new ReadableStream({
    async start(controller) {
      for (const n of [1, 2, 3]) {
        controller.enqueue(encoder.encode(`${n}\n`))
        await new Promise((resolve) => setTimeout(resolve, 300))
      }
      controller.close()
    },
  })
  return new Response(body, { headers: { 'content-type': 'text/plain' } })
}
